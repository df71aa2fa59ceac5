#include "binade/amp/step/callback.h"

#include <gtest/gtest.h>

#include "binade/core/error.h"
#include "binade/core/state_counts.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

/// A callback that anneals a factor of the loss and keeps an average of the loss.
class Annealing final : public Callback {
 public:
  std::string name() const override { return "annealing"; }
  void before_step(std::int64_t step) override {
    if (step == throws_at) throw ArgumentError("annealing: wanted another step");
    factor = 1 / static_cast<double>(step);
    calls.push_back(step);
  }
  void after_commit(StepResult& result) override {
    mean_loss = 0.9 * mean_loss + 0.1 * result.loss;
    result.metrics.push_back({"train/mean_loss", "mean_loss", mean_loss});
  }
  StateDict state() const override {
    StateDict state;
    state.put("mean_loss", mean_loss);
    return state;
  }
  void check_state(const StateDict& state) const override {
    if (!state.empty()) state.number("mean_loss");
  }
  void load_state(const StateDict& state) override { mean_loss = state.empty() ? 0 : state.number("mean_loss"); }

  double factor = 1, mean_loss = 0;
  std::int64_t throws_at = 0;
  std::vector<std::int64_t> calls;
};

struct Annealed {
  explicit Annealed(TrainerOptions options = {}) : training(std::move(options)) {
    training.trainer.add_callback(annealing);
  }
  StepResult step(std::uint32_t k, double factor = 1) {
    return training.trainer.step(toy::batch(k), [&](const toy::Batch& b) {
      return toy::loss(training.net, b) * (annealing.factor * factor);
    });
  }
  Annealing annealing;
  toy::Training training;
};

TEST(Callback, ActsOncePerStepAndAddsMetrics) {
  Annealed run({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p30)});
  const StepResult first = run.step(0);
  EXPECT_GT(first.earlier.size(), 2u) << "several attempts";
  EXPECT_EQ(run.annealing.calls, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(first.metric("train/mean_loss"), 0.1 * first.loss);
  run.step(1);
  EXPECT_EQ(run.annealing.calls, (std::vector<std::int64_t>{1, 2}));
}

TEST(Callback, StateResumesToTheSameBits) {
  StateDict middle;
  std::string whole;
  double mean_loss = 0;
  {
    Annealed run;
    for (std::uint32_t k = 0; k < 10; ++k) {
      run.step(k);
      if (k == 4) middle = run.training.trainer.state();
    }
    whole = run.training.trainer.state_hash();
    mean_loss = run.annealing.mean_loss;
  }
  Annealed run;
  run.training.trainer.load_state(middle);
  for (std::uint32_t k = 5; k < 10; ++k) run.step(k);
  EXPECT_EQ(run.training.trainer.state_hash(), whole);
  EXPECT_EQ(run.annealing.mean_loss, mean_loss);
}

TEST(Callback, StateReachesACallbackThatIsAddedAfterTheLoad) {
  StateDict saved;
  double mean_loss = 0;
  {
    Annealed first;
    for (std::uint32_t k = 0; k < 3; ++k) first.step(k);
    saved = first.training.trainer.state();
    mean_loss = first.annealing.mean_loss;
  }
  for (const bool too_late : {false, true}) {
    toy::Training resumed{TrainerOptions{}};
    resumed.trainer.load_state(saved);
    if (too_late) resumed.trainer.step(toy::batch(3), [&](const toy::Batch& b) { return toy::loss(resumed.net, b); });
    Annealing callback;
    if (too_late) {
      EXPECT_THROW(resumed.trainer.add_callback(callback), ArgumentError);
    } else {
      resumed.trainer.add_callback(callback);
      EXPECT_EQ(callback.mean_loss, mean_loss);
    }
  }
}

TEST(Callback, AnAbortedStepDoesNotReachAfterCommit) {
  Annealed run({.on_nan = OnNan::kStop});
  run.step(0);
  const double before = run.annealing.mean_loss;
  EXPECT_THROW(run.step(1, std::nan("")), NumericError);
  EXPECT_EQ(run.annealing.mean_loss, before);
}

TEST(Callback, AnExceptionBeforeAStepLeavesNoTrace) {
  Annealed run;
  run.step(0);
  const std::string before = run.training.trainer.state_hash();
  run.annealing.throws_at = 2;
  EXPECT_THROW(run.step(1), ArgumentError);
  EXPECT_EQ(run.training.trainer.state_hash(), before);
}

TEST(Callback, ASecondCallbackOfTheSameNameIsRefused) {
  Annealed run;
  Annealing other;
  EXPECT_THROW(run.training.trainer.add_callback(other), ArgumentError);
}

}  // namespace
}  // namespace binade::amp
