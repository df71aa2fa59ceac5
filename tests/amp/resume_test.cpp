#include <gtest/gtest.h>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/state_hash.h"
#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/data/loader.h"
#include "binade/optim/ema.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

using toy::Training;

io::Loader<toy::Batch> make_loader() {
  return io::Loader<toy::Batch>({.batch = 4, .seed = 3, .samples = 10, .content = "toy"},
                                [](const io::BatchOrigin& origin) {
                                  return toy::batch(static_cast<std::uint32_t>(origin.samples[0]) +
                                                    10 * static_cast<std::uint32_t>(origin.samples[1]));
                                });
}

TrainerOptions options_for(const std::string& precision) {
  return {.precision = Policy::by_name(precision),
          .schedule = optim::Schedule::cosine(0.02, 12, 0.001, 3),
          .clip_norm = 1,
          .ema = optim::EmaOptions{.decay = 0.8},
          .accumulate = 2,
          .steps = 12,
          .state_hash = true};
}

/// Runs steps up to `until` (0: to the end) on the loader's batches. Returns the state hash after each step.
std::vector<std::string> train(Training& run, io::Loader<toy::Batch>& loader, std::int64_t until) {
  std::vector<std::string> hashes;
  for (const auto& batch : run.trainer.batches(loader)) {
    hashes.push_back(run.step(batch).state_hash_after);
    if (run.trainer.steps() == until) break;
  }
  return hashes;
}

TEST(Resume, GivesTheSameBitsFromEveryStepInEveryPrecision) {
  for (const char* precision : {"fp32", "fp16", "bf16", "pure-bf16"}) {
    std::vector<std::string> whole;
    {
      Training run(options_for(precision));
      io::Loader<toy::Batch> loader = make_loader();
      whole = train(run, loader, 0);
      ASSERT_EQ(whole.size(), 12u) << "batches() ends at options.steps";
    }
    for (const std::int64_t cut : {1, 4, 11}) {
      StateDict saved;
      {
        Training run(options_for(precision));
        io::Loader<toy::Batch> loader = make_loader();
        train(run, loader, cut);
        saved = run.trainer.state();
        EXPECT_EQ(amp::state_hash(saved), whole[static_cast<std::size_t>(cut - 1)]);
        train(run, loader, cut + 1);
        EXPECT_EQ(amp::state_hash(saved), whole[static_cast<std::size_t>(cut - 1)]) << "a state is a copy";
      }
      // Encodes and decodes the state as a checkpoint file does.
      const io::CheckpointImage image = io::encode_checkpoint(saved, amp::state_hash(saved));
      const StateDict read = io::decode_checkpoint(image.bytes()).state;
      EXPECT_EQ(amp::state_hash(read), amp::state_hash(saved));
      Training run(options_for(precision));
      io::Loader<toy::Batch> loader = make_loader();
      run.trainer.attach(loader);
      run.trainer.load_state(read);
      EXPECT_EQ(run.trainer.steps(), cut);
      const std::vector<std::string> rest = train(run, loader, 0);
      EXPECT_EQ(rest, std::vector<std::string>(whole.begin() + cut, whole.end())) << precision << " cut after " << cut;
    }
  }
}

TEST(Resume, ALoadedDataCursorIsKeptUntilALoaderIsAttached) {
  const TrainerOptions options = options_for("fp32");
  std::vector<std::string> whole;
  StateDict saved;
  {
    Training run(options);
    io::Loader<toy::Batch> loader = make_loader();
    whole = train(run, loader, 4);
    saved = run.trainer.state();
    const std::vector<std::string> rest = train(run, loader, 0);
    whole.insert(whole.end(), rest.begin(), rest.end());
  }
  {
    Training run(options);
    run.trainer.load_state(saved);  // no loader is attached yet
    EXPECT_EQ(run.trainer.state_hash(), whole[3]) << "a state taken meanwhile keeps the cursor";
    io::Loader<toy::Batch> loader = make_loader();
    EXPECT_EQ(train(run, loader, 0), std::vector<std::string>(whole.begin() + 4, whole.end()));
  }
  Training other(options);
  other.trainer.load_state(saved);
  io::Loader<toy::Batch> foreign({.batch = 4, .seed = 3, .samples = 10, .content = "other"},
                                 [](const io::BatchOrigin&) { return toy::batch(0); });
  EXPECT_THROW(other.trainer.attach(foreign), DataError);
}

TEST(Resume, AStateThatDoesNotFitIsRefusedWithoutATrace) {
  StateDict saved;
  {
    Training run(options_for("fp16"));
    run.step(0);
    saved = run.trainer.state();
  }
  const auto refused = [&](const TrainerOptions& options, const StateDict& state) {
    Training run(options);
    const std::string before = run.trainer.state_hash();
    EXPECT_THROW(run.trainer.load_state(state), CheckpointError);
    EXPECT_EQ(run.trainer.state_hash(), before);
  };
  for (const char* missing :
       {"model/up.bias", "norm/mean", "optim/moment2/down.weight", "amp/scaler/scale", "sched/kind", "rng/seed"}) {
    StateDict part;
    for (const auto& [name, value] : saved.values())
      if (name != missing) part.put(name, value);
    refused(options_for("fp16"), part);
  }
  StateDict other_shape;
  for (const auto& [name, value] : saved.values())
    other_shape.put(name, name == "model/up.bias" ? StateDict::Value(Tensor::zeros({15})) : value);
  refused(options_for("fp16"), other_shape);
}

TEST(Resume, AnotherPrecisionContinuesFromTheSameWeights) {
  for (const char* then : {"fp32", "fp16", "bf16", "pure-bf16"}) {
    StateDict saved;
    {
      Training run(options_for(then));
      for (std::uint32_t k = 0; k < 3; ++k) run.step(k);
      saved = run.trainer.state();
    }
    for (const char* now : {"fp32", "fp16", "bf16", "pure-fp16"}) {
      Training run(options_for(now));
      run.trainer.load_state(saved);
      const StateDict state = run.trainer.state();
      EXPECT_EQ(state.text("amp/policy"), Policy::by_name(now).to_string());
      EXPECT_EQ(state.integer("rng/step"), 3);
      const Tensor &before = saved.tensor("model/up.weight"), &after = state.tensor("model/up.weight");
      for (std::int64_t i = 0; i < before.numel(); ++i)
        EXPECT_NEAR(after.at(i), before.at(i), std::abs(before.at(i)) / 1024 + 1e-7)
            << "at most one rounding to 11 bits";
      const bool was_scaled = Policy::by_name(then).dynamic_loss_scale,
                 is_scaled = Policy::by_name(now).dynamic_loss_scale;
      EXPECT_EQ(run.trainer.scaler().scale(), is_scaled ? (was_scaled ? saved.number("amp/scaler/scale") : 65536) : 1);
      EXPECT_EQ(run.trainer.changes().empty(), std::string(then) == now);
      for (std::uint32_t k = 3; k < 6; ++k) EXPECT_TRUE(run.step(k).committed) << then << " to " << now;
    }
  }
}

TEST(Resume, ChangedSettingsAreListed) {
  TrainerOptions options = options_for("bf16"), other = options_for("fp16");
  options.schedule = optim::Schedule::cosine(0.02, 9);
  other.precision = Policy::fp16().with("linear", DType::f32);
  other.schedule = optim::Schedule::constant(0.01);
  other.ema.reset();
  StateDict saved;
  {
    Training run(options);
    run.step(0);
    saved = run.trainer.state();
  }
  {
    Training run(other);
    run.trainer.load_state(saved);
    EXPECT_EQ(run.trainer.changes(),
              (std::vector<std::string>{"precision bf16 -> fp16 with linear=f32", "loss scale off -> dynamic",
                                        "schedule cosine -> constant", "lr 0.02 -> 0.01",
                                        "averaged weights on -> off"}));
    EXPECT_EQ(run.step(1).lr, 0.01);
    saved = run.trainer.state();
  }
  Training back(options);
  back.trainer.load_state(saved);
  EXPECT_EQ(back.trainer.ema()->updates(), 0) << "averages begin at the weights";
  EXPECT_TRUE(back.step(2).committed);
}

TEST(Resume, WeightsBeyondF16AreRefusedWithoutMasterWeights) {
  StateDict saved;
  {
    Training run(options_for("fp32"));
    run.step(0);
    saved = run.trainer.state();
  }
  StateDict large;
  for (const auto& [name, value] : saved.values())
    large.put(name,
              name == "model/up.weight" ? StateDict::Value(Tensor::full(saved.tensor(name).shape(), 1e6)) : value);
  Training run(options_for("pure-fp16"));
  const std::string before = run.trainer.state_hash();
  EXPECT_THROW(run.trainer.load_state(large), CheckpointError);
  EXPECT_EQ(run.trainer.state_hash(), before);
}

TEST(StateHash, CoversTheStateThatDeterminesTrainingOnly) {
  StateDict base;
  base.put("model/w", Tensor::full({2, 3}, 1));
  base.put("rng/step", std::int64_t{4});
  const auto with = [&](const std::string& name, const StateDict::Value& value) {
    StateDict changed;
    for (const auto& [n, v] : base.values())
      if (n != name) changed.put(n, v);
    changed.put(name, value);
    return state_hash(changed);
  };
  const std::string hash = state_hash(base);
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(with("amp/scaler/scale", 2.0), hash);
  EXPECT_EQ(with("progress/skipped_total", std::int64_t{9}), hash);
  EXPECT_EQ(with("guard/quarantine", std::string("x")), hash);
  EXPECT_EQ(with("data/quarantine", StateDict::Integers{3}), hash);
  EXPECT_NE(with("data/position", std::int64_t{3}), hash);
  EXPECT_NE(with("rng/step", std::int64_t{5}), hash);
  EXPECT_NE(with("model/w", Tensor::full({3, 2}, 1)), hash) << "the shape counts";
  EXPECT_NE(with("model/w", Tensor::full({2, 3}, 1, DType::bf16)), hash);
  EXPECT_NE(with("norm/mean", Tensor::full({2}, 0)), hash);
  EXPECT_EQ(with("modelx/w", std::int64_t{1}), hash) << "sections are whole words";
}

}  // namespace
}  // namespace binade::amp
