// Tests SpikeReview: a batch with an absurd loss is kept until the loss of the next batch is known.
#include "tests/amp/lab.h"

namespace binade::amp {
namespace {

using toy::Lab;
using toy::LabBatch;

/// Steps of a run whose targets are `factor` times as large while `changed(k)` is true. Returns the committed losses.
template <class Changed>
std::vector<double> losses_of(Lab& run, int calls, double factor, Changed&& changed) {
  std::vector<double> losses;
  for (int k = 1; k <= calls; ++k) {
    LabBatch batch = run.loader.next();
    if (changed(k)) batch.target.copy_from(Tensor::from(std::vector<float>(16, static_cast<float>(factor)), {8, 2}));
    run.trainer.step(batch, [&](const LabBatch& b) { return run.loss(b); });
    for (const StepResult& r : run.trainer.finished()) {
      EXPECT_FALSE(r.incident && r.committed);
      if (r.committed) losses.push_back(r.loss);
    }
  }
  return losses;
}

TEST(SpikeReview, ASuddenChangeOfTheDataKeepsTheBitsOfARunWithoutAGuard) {
  const auto jump = [](int k) { return k > 60; };
  std::vector<double> unguarded;
  {
    Lab run({.on_nan = OnNan::kSkip});
    unguarded = losses_of(run, 100, 50, jump);
  }
  Lab guarded({});
  const std::vector<double> losses = losses_of(guarded, 100, 50, jump);
  EXPECT_EQ(losses.size(), 100u);
  EXPECT_EQ(losses, unguarded);
  EXPECT_GT(losses[60], 1000) << "far above the 60 before";
}

TEST(SpikeReview, ABadBatchIsSkippedAndTheNextHasItsStepNumber) {
  Lab run({});
  const std::vector<double> losses = losses_of(run, 60, 50, [](int) { return false; });
  LabBatch bad = run.loader.next();
  bad.target.fill(50);
  const auto closure = [&](const LabBatch& b) { return run.loss(b); };
  const std::string before = run.trainer.state_hash();
  const StepResult waits = run.trainer.step(bad, closure);
  EXPECT_FALSE(waits.committed);
  EXPECT_TRUE(waits.in_flight);
  EXPECT_TRUE(run.trainer.finished().empty()) << "nothing is known of it yet";
  EXPECT_EQ(run.trainer.state_hash(), before);
  const StepResult next = run.trainer.step(run.loader.next(), closure);
  EXPECT_TRUE(next.committed);
  EXPECT_EQ(next.step, 61);
  ASSERT_EQ(next.incidents().size(), 1u);
  EXPECT_EQ(next.incidents()[0]->remedy.action, RemedyAction::kSkipBatch);
  EXPECT_EQ(next.incidents()[0]->step, 61);
  EXPECT_TRUE(run.trainer.step(run.loader.next(), closure).committed);
  EXPECT_EQ(run.trainer.steps(), 62);
}

TEST(SpikeReview, ARunEndsAfterItsLastStepEvenIfABatchWaits) {
  Lab run({.steps = 61});
  int calls = 0;
  for (const auto& batches : run.trainer.batches(run.loader)) {
    LabBatch batch = batches.batches[0];
    if (++calls > 60) batch.target.fill(50);
    run.trainer.step(batch, [&](const LabBatch& b) { return run.loss(b); });
  }
  EXPECT_EQ(run.trainer.steps(), 61);
  EXPECT_EQ(calls, 62);
}

/// A batch that cannot be copied, and so cannot be kept until the next batch.
struct Unique {
  explicit Unique(LabBatch b) : batch(std::move(b)) {}
  Unique(const Unique&) = delete;
  LabBatch batch;
};

TEST(SpikeReview, ABatchThatCannotBeCopiedIsNotJudged) {
  Lab run({});
  for (int k = 1; k <= 80; ++k) {
    Unique batch(run.loader.next());
    if (k == 70) batch.batch.target.fill(50);
    EXPECT_TRUE(run.trainer.step(batch, [&](const Unique& b) { return run.loss(b.batch); }).committed);
  }
}

}  // namespace
}  // namespace binade::amp
