#pragma once

#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/activations.h"
#include "binade/core/thread_ranks.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/data/loader.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/dropout.h"
#include "binade/nn/linear.h"
#include "binade/nn/losses.h"
#include "binade/optim/adam.h"

/// A small training with everything that the number of ranks could change: batch norm, dropout, moments, averages, a
/// loss scale, a shuffled loader.
namespace binade::ranks_test {

struct Net : nn::Module {
  nn::Linear in{{.in = 6, .out = 24}}, out{{.in = 24, .out = 2}};
  nn::BatchNorm1d norm{{.channels = 24}};
  nn::Dropout dropout{{.p = 0.2}};
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("norm", norm);
    v("dropout", dropout);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(dropout(gelu(norm(in(x))))); }
};

struct Batch {
  Tensor x{}, y{};
  io::BatchOrigin origin{};

  Batch without(std::span<const std::int64_t> rows) const {
    return {io::without_rows(x, rows), io::without_rows(y, rows), origin.without(rows)};
  }
  StateDict state() const {
    StateDict state;
    state.put("x", x);
    state.put("y", y);
    state.merge("origin", origin.state());
    return state;
  }
  static Batch from_state(const StateDict& state) {
    return {state.tensor("x"), state.tensor("y"), io::BatchOrigin::from_state(state.section("origin"))};
  }
};

struct Settings {
  std::string policy = "fp32";
  std::int64_t micro_batches = 8;
  std::int64_t leaves = 8;
  int steps = 12;
  amp::OnNan on_nan = amp::OnNan::kRemedy;
  std::int64_t bad_sample = -1;  ///< an element of this sample is NaN
  std::int64_t verify_every = 0;
  int prefetch = 2;
  std::vector<std::string> inject{};
};

/// The results of a training. Two outcomes are equal if their bits are.
struct Outcome {
  std::string state_hash{};
  Bytes checkpoint{};
  std::vector<std::string> steps{};  ///< loss, norm, scale and state hash of every attempt
  std::vector<amp::Incident> incidents{};
  bool operator==(const Outcome& other) const {
    return state_hash == other.state_hash && checkpoint == other.checkpoint && steps == other.steps;
  }
};

inline Batch make_batch(const io::BatchOrigin& origin, std::int64_t bad_sample) {
  const auto rows = std::ssize(origin.samples);
  Batch batch{Tensor::zeros({rows, 6}), Tensor::zeros({rows, 2}), {}};
  float *x = batch.x.mutable_data<float>(), *y = batch.y.mutable_data<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t sample = origin.samples[static_cast<std::size_t>(row)];
    const RandomStream random{7, RngPurpose::kData, static_cast<std::uint64_t>(sample)};
    for (std::uint64_t i = 0; i < 6; ++i)
      x[6 * row + static_cast<std::int64_t>(i)] = static_cast<float>(random.normal(i));
    y[2 * row] = x[6 * row] * x[6 * row + 1];
    y[2 * row + 1] = std::sin(x[6 * row + 2]);
    if (sample == bad_sample) x[6 * row + 3] = std::numeric_limits<float>::quiet_NaN();
  }
  return batch;
}

/// A training on one rank.
class Training {
 public:
  Training(const std::shared_ptr<Communicator>& ranks, const Settings& s)
      : settings(s),
        runtime({.seed = 5, .threads = 1}),
        optimizer(net, {.lr = 0.01, .weight_decay = 0.01}),
        trainer(runtime, net, optimizer,
                {.precision = amp::Policy::by_name(s.policy),
                 .clip_norm = 1,
                 .ema = optim::EmaOptions{.decay = 0.9},
                 .accumulate = s.micro_batches,
                 .ranks = ranks,
                 .leaves = s.leaves,
                 .verify_every = s.verify_every,
                 .on_nan = s.on_nan,
                 .inject = s.inject}),
        loader({.batch = 4, .seed = 9, .samples = 150, .content = "small", .prefetch = s.prefetch},
               [bad = s.bad_sample](const io::BatchOrigin& origin) { return make_batch(origin, bad); }) {}

  /// Makes steps until `count` are committed, and adds them to the outcome.
  void steps(std::int64_t count) {
    if (trainer.has_committed(count)) return;
    for (const auto& batch : trainer.batches(loader)) {
      const amp::StepResult result = trainer.step(batch, [this](const Batch& b) { return nn::mse(net(b.x), b.y); });
      std::vector<amp::StepResult> all = result.earlier;
      all.push_back(result);
      for (const amp::StepResult& one : all) {
        outcome.steps.push_back(fmt::format("{} {} {:a} {:a} {} {}", one.step, one.committed, one.loss, one.grad_norm,
                                            one.loss_scale, one.backward_headroom.binades));
        if (one.incident) outcome.incidents.push_back(*one.incident);
      }
      outcome.steps.push_back(trainer.state_hash());
      if (trainer.has_committed(count)) break;
    }
  }
  Outcome finished() {
    static std::mutex one_at_a_time;  // threads share the HDF5 library
    const std::lock_guard lock(one_at_a_time);
    outcome.state_hash = trainer.state_hash();
    const io::CheckpointImage image = io::encode_checkpoint(trainer.state(), outcome.state_hash);
    outcome.checkpoint.assign(image.bytes().begin(), image.bytes().end());
    return outcome;
  }

  Settings settings;
  Runtime runtime;
  Net net;
  optim::AdamW optimizer;
  amp::Trainer trainer;
  io::Loader<Batch> loader;
  Outcome outcome;
};

inline Outcome train(const std::shared_ptr<Communicator>& ranks, const Settings& settings) {
  Training training(ranks, settings);
  training.steps(settings.steps);
  return training.finished();
}

/// Trains on `ranks` threads. Returns the outcome of every rank.
inline std::vector<Outcome> train_on_threads(int ranks, const Settings& settings, std::uint64_t delays = 0) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  run_thread_ranks(ranks,
                   [&](const std::shared_ptr<Communicator>& self) {
                     outcomes[static_cast<std::size_t>(self->rank())] = train(self, settings);
                   },
                   {.deadline = std::chrono::seconds(60), .delays = delays});
  return outcomes;
}

}  // namespace binade::ranks_test
