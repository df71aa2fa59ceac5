#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "binade/io/data/loader.h"
#include "tests/amp/toy.h"

namespace binade::amp::toy {

/// A batch whose row i belongs to sample i.
struct LabBatch {
  Tensor x{}, target{};
  io::BatchOrigin origin{};
  LabBatch without(std::span<const std::int64_t> rows) const {
    return {io::without_rows(x, rows), io::without_rows(target, rows), origin.without(rows)};
  }
  StateDict state() const {
    StateDict state = origin.state();
    state.put("x", x);
    state.put("target", target);
    return state;
  }
  static LabBatch from_state(const StateDict& state) {
    return {state.tensor("x"), state.tensor("target"), io::BatchOrigin::from_state(state)};
  }
};

struct Lab {
  Runtime runtime{{.seed = 3, .threads = 2}};
  toy::Two model;
  optim::AdamW optimizer;
  Trainer trainer;
  std::int64_t bad_sample = -1;
  io::Loader<LabBatch> loader{
      {.batch = 8, .seed = 5, .order = io::SampleOrder::kShuffled, .samples = 64, .prefetch = 0},
      [this](const io::BatchOrigin& origin) { return make(origin); }};

  explicit Lab(TrainerOptions options)
      : optimizer(model, {.lr = 0.01}), trainer(runtime, model, optimizer, hashed(options)) {
    trainer.attach(loader);
  }
  static TrainerOptions hashed(TrainerOptions options) {
    options.state_hash = true;
    return options;
  }
  LabBatch make(const io::BatchOrigin& origin) const {
    const auto rows = static_cast<std::int64_t>(origin.samples.size());
    LabBatch batch{Tensor::empty({rows, 4}), Tensor::empty({rows, 2}), origin};
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t sample = origin.samples[static_cast<std::size_t>(row)];
      const Tensor x = toy::random({4}, static_cast<std::uint32_t>(100 + sample));
      batch.x.narrow(row, 1).copy_from(x.reshape({1, 4}));
      batch.target.narrow(row, 1).copy_from(Tensor::from(std::vector<float>{0.5f, -0.5f}, {1, 2}));
      if (sample == bad_sample) batch.x.mutable_data<float>()[4 * row + 1] = std::numeric_limits<float>::quiet_NaN();
    }
    return batch;
  }
  Variable loss(const LabBatch& b) { return apply_one<toy::SquaredError>({}, {model(b.x), Variable(b.target)}); }
  StepResult step() {
    return trainer.step(loader.next(), [&](const LabBatch& b) { return loss(b); });
  }
  template <class Closure>
  StepResult step(Closure&& closure) {
    return trainer.step(loader.next(), closure);
  }
  /// Returns the incidents of all attempts since the last call. Expects that aborted attempts left no trace.
  std::vector<Incident> incidents() {
    std::vector<Incident> found;
    for (const StepResult& r : trainer.finished()) {
      if (!r.committed) {
        EXPECT_EQ(r.state_hash_before, r.state_hash_after) << "step " << r.step;
      }
      if (r.incident) found.push_back(*r.incident);
    }
    return found;
  }
};

}  // namespace binade::amp::toy
