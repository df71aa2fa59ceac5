#include <gtest/gtest.h>

#include "binade/core/error.h"
#include "tests/amp/toy.h"

/// Hooks in steps of a Trainer.
namespace binade::amp {
namespace {

struct Steps {
  Runtime runtime{{.seed = 1}};
  toy::Two model;
  optim::AdamW optimizer{model, {.lr = 0.01}};
  Trainer trainer;

  explicit Steps(const TrainerOptions& options = {}) : trainer(runtime, model, optimizer, options) {}
  StepResult step(const toy::Batch& batch) {
    return trainer.step(batch, [&](const toy::Batch& b) {
      return apply_one<toy::SquaredError>({}, {model(b.x), Variable(b.target)});
    });
  }
};

TEST(HooksInSteps, AHookThatThrowsLeavesNoTrace) {
  for (const bool in_backward : {false, true}) {
    Steps run;
    run.step(toy::batch(0));
    const std::string before = run.trainer.state_hash();
    const auto refuse = [] { throw ArgumentError("the hook refuses"); };
    HookHandle handle = in_backward ? run.model.second.register_backward_hook(
                                          [&](nn::Module&, const Variable&, const Variable&) { refuse(); })
                                    : run.model.second.register_forward_hook(
                                          [&](nn::Module&, const Variable&, const Variable&) { refuse(); });
    EXPECT_THROW(run.step(toy::batch(1)), ArgumentError);
    EXPECT_EQ(run.trainer.state_hash(), before);
    handle.remove();
    EXPECT_TRUE(run.step(toy::batch(1)).committed);
  }
}

TEST(HooksInSteps, GradientsIncludeTheLossScale) {
  std::vector<double> largest;
  for (const double scale : {1.0, 1024.0}) {
    Steps run({.loss_scale = LossScaleOptions::fixed(scale)});
    double seen = 0;
    run.model.second.weight.register_hook(
        [&](const Variable& g) { seen = std::abs(static_cast<double>(g.value().on_host().at(0))); });
    run.step(toy::batch(0));
    largest.push_back(seen);
  }
  EXPECT_GT(largest[0], 0);
  EXPECT_NEAR(largest[1], 1024 * largest[0], 1e-3 * largest[1]);
}

TEST(HooksInSteps, AHookRunsInReplaysAndItsNanIsAnIncident) {
  Steps run({.on_nan = OnNan::kSkip});
  run.step(toy::batch(0));
  int calls = 0;
  HookHandle handle = run.model.first.register_forward_hook([&](nn::Module&, const Variable&, const Variable& y) {
    ++calls;
    return y * std::numeric_limits<double>::quiet_NaN();
  });
  const StepResult result = run.step(toy::batch(1));
  EXPECT_FALSE(result.committed);
  ASSERT_TRUE(result.incident);
  EXPECT_GT(calls, 1) << "the diagnosis ran the step again";
  handle.remove();
  EXPECT_TRUE(run.step(toy::batch(2)).committed);
}

TEST(HooksInSteps, HooksThatReturnNothingKeepTheBits) {
  std::string hashes[2];
  for (const bool hooked : {false, true}) {
    Steps run({.precision = Policy::bf16(), .clip_norm = 1});
    int calls = 0;
    if (hooked) {
      for (nn::Linear* layer : {&run.model.first, &run.model.second}) {
        layer->register_forward_hook([&](nn::Module&, const Variable&, const Variable&) { ++calls; });
        layer->register_backward_hook([&](nn::Module&, const Variable&, const Variable&) { ++calls; });
      }
    }
    for (std::uint32_t k = 0; k < 5; ++k) run.step(toy::batch(k));
    EXPECT_EQ(calls, hooked ? 20 : 0);
    hashes[hooked] = run.trainer.state_hash();
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace binade::amp
