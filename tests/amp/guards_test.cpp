// Fifteen checks in other trainers failed because of the very fault that they should have detected, such as a NaN
// (docs/warnings.md, "Checks that keep working during the faults that they detect"). The tests follow the order of
// that page. Each exposes Binade to the same fault; its checks must keep working.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/warnings/spike_guard.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/core/observation.h"
#include "binade/io/records/json_lines.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

using toy::Training;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<double> kBad{std::nan(""), -std::nan(""), kInfinity, -kInfinity};

/// Runs a step and returns true if it committed. Expects that a step that did not commit left no trace.
bool commits(Training& run, const toy::Batch& batch) {
  const std::string before = run.trainer.state_hash();
  try {
    if (run.step(batch).committed) return true;
  } catch (const NumericError&) {
  }
  EXPECT_EQ(run.trainer.state_hash(), before);
  return false;
}

TEST(Guards, RepeatedBadStepsAreNeverCommitted) {
  for (const OnNan on_nan : {OnNan::kRemedy, OnNan::kSkip, OnNan::kStop}) {
    Training run({.precision = Policy::fp16(), .on_nan = on_nan});
    EXPECT_TRUE(commits(run, toy::batch(1)));
    for (int k = 0; k < 100; ++k) EXPECT_FALSE(commits(run, toy::with_nan(toy::batch(2))));
    EXPECT_TRUE(commits(run, toy::batch(3)));
  }
}

TEST(Guards, ANanLossIsRefusedAfterAFullWindow) {
  Training run({.on_nan = OnNan::kSkip});
  for (std::uint32_t k = 0; k < 60; ++k) ASSERT_TRUE(commits(run, toy::batch(k)));
  EXPECT_FALSE(commits(run, toy::with_nan(toy::batch(60))));
  EXPECT_TRUE(commits(run, toy::batch(60))) << "the NaN is not in the window";
}

TEST(Guards, ANanLossLeadsToARemedy) {
  Training run({.on_nan = OnNan::kSkip});
  const StepResult result = run.step(toy::with_nan(toy::batch(1)));
  ASSERT_TRUE(result.incident.has_value());
  EXPECT_EQ(result.incident->remedy.action, RemedyAction::kSkipBatch);
}

TEST(Guards, ASkippedUpdateKeepsTheBitsOfTheState) {
  for (const double bad : kBad) {
    Training run({.on_nan = OnNan::kSkip});
    for (std::uint32_t k = 0; k < 3; ++k) ASSERT_TRUE(commits(run, toy::batch(k)));
    toy::Batch batch = toy::batch(3);
    batch.target.mutable_data<float>()[0] = static_cast<float>(bad);
    EXPECT_FALSE(commits(run, batch));  // same bits of weights and moments (the state hash)
    EXPECT_TRUE(commits(run, toy::batch(3)));
  }
}

TEST(Guards, TheWindowOfLossesIgnoresNonFiniteLosses) {
  SpikeGuard guard;
  for (int k = 0; k < 200; ++k) guard.add(1 + 0.01 * (k % 7), 1 + 0.01 * (k % 5));
  const double bound = guard.bound();
  for (int k = 0; k < 1000; ++k)
    guard.add(kBad[static_cast<std::size_t>(k) % kBad.size()], kBad[static_cast<std::size_t>(k) % kBad.size()]);
  EXPECT_EQ(guard.bound(), bound);
  EXPECT_TRUE(guard.is_spike(100, 50));
  EXPECT_FALSE(guard.is_spike(1.05, 50));
}

TEST(Guards, ThePlateauScheduleIgnoresNonFiniteLosses) {
  for (const double bad : kBad) {
    optim::Schedule watched = optim::Schedule::plateau(1, 0.1, 2), plain = watched;
    for (const double loss : {3.0, 2.0, 2.5, 2.6, 1.0, 1.5, 1.6, 1.7}) {
      watched.observe(loss), watched.observe(bad), plain.observe(loss);
      EXPECT_EQ(watched.lr(1), plain.lr(1)) << loss;
    }
  }
}

TEST(Guards, ZeroGradientsDoNotDistortTheLossScale) {
  LossScaler scaler({.init_scale = 1024, .growth_interval = 20}), plain = scaler;
  for (int k = 0; k < 19; ++k) {
    scaler.committed(k % 2 == 0 ? kInfinity : 3);  // infinite headroom: all gradients are 0
    plain.committed(3);
  }
  scaler.committed(3), plain.committed(3);
  EXPECT_EQ(scaler.scale(), plain.scale());
  EXPECT_EQ(scaler.overflowed(), ScaleVerdict::kLowered);
  EXPECT_EQ(scaler.scale(), plain.scale() / 2) << "the scale, not its logarithm";
}

TEST(Guards, TheGrowthIntervalCountsStepsAtEveryScale) {
  for (const double scale : {1.0, 2.0, 1024.0, 65536.0, 0x1p20}) {
    LossScaler scaler({.init_scale = scale, .growth_interval = 20});
    for (int k = 0; k < 19; ++k) scaler.committed();
    EXPECT_EQ(scaler.scale(), scale);
    scaler.committed();
    EXPECT_EQ(scaler.scale(), 2 * scale);
  }
}

TEST(Guards, TheFloorIsRestoredFromACheckpoint) {
  const LossScaleOptions options{.init_scale = 64, .floor = 16};
  const LossScaler before(options);
  LossScaler after(options);
  after.load_state(before.state());
  while (after.overflowed() == ScaleVerdict::kLowered) {
  }
  EXPECT_EQ(after.scale(), 16);
}

TEST(Guards, ClippingAnInfiniteGradientDoesNotCommitZeros) {
  Training run({.clip_norm = 1, .on_nan = OnNan::kStop, .inject = {"inf-grad@step=2,param=up.weight,index=3"}});
  EXPECT_TRUE(commits(run, toy::batch(1)));
  EXPECT_FALSE(commits(run, toy::batch(2)));
}

TEST(Guards, ALateSpikeIsComparedWithRecentLosses) {
  SpikeGuard guard;
  for (int k = 0; k < 600; ++k) guard.add(0.5 + 10 * std::exp(-k / 60.0) + 0.01 * (k % 5), 1 + 0.01 * (k % 7));
  EXPECT_TRUE(guard.is_spike(8, 50)) << "below the loss that the run began with";
}

TEST(Guards, AnOverflowThatALowerScaleFixesIsNoIncident) {
  Training run({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p32)});
  EXPECT_TRUE(run.step(1).committed);
  for (const StepResult& attempt : run.trainer.finished()) EXPECT_FALSE(attempt.incident.has_value());
  EXPECT_GT(run.trainer.skipped(), 0);
}

TEST(Guards, TheLogContainsNonFiniteLosses) {
  Training run({.on_nan = OnNan::kSkip});
  EXPECT_TRUE(std::isnan(run.step(toy::with_nan(toy::batch(1))).loss));
  EXPECT_EQ(io::JsonObject().add("loss", std::nan("")).add("norm", -kInfinity).text(),
            R"({"loss":"nan","norm":"-inf"})");
}

TEST(Guards, TheMaximumOfValuesWithANanIsNan) {
  const Runtime runtime({.threads = 2});
  constexpr std::uint32_t kInfinite = 0x7f800000u;
  for (const std::int64_t place : {0, 1, 500, 4095, 9999}) {
    Tensor x = Tensor::full({10000}, 3.0);
    x.mutable_data<float>()[place] = std::nanf("");
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Observation seen = observe(x.to(dtype));
      EXPECT_GT(std::max(seen.low, seen.wide), kInfinite);
    }
    Observation before = observe(x), after = observe(Tensor::full({4}, kInfinity));
    before.merge(observe(Tensor::full({4}, kInfinity)));
    after.merge(observe(x));
    EXPECT_GT(before.wide, kInfinite);
    EXPECT_GT(after.wide, kInfinite);
    EXPECT_TRUE(std::isnan(max(Variable(x), {0}).item()));
  }
}

TEST(Guards, ANanGradientSkipsTheStepAndTheDefaultScaleIsDynamic) {
  Training run({.precision = Policy::fp16()});
  EXPECT_EQ(run.trainer.scaler().options().mode, LossScaleMode::kDynamic);
  EXPECT_TRUE(commits(run, toy::batch(1)));
  run.net.fragile = 0;  // backward gives NaN at every loss scale
  EXPECT_FALSE(commits(run, toy::batch(2)));
  run.net.fragile = kInfinity;
  EXPECT_TRUE(commits(run, toy::batch(2)));
}

TEST(Guards, TheScaleStopsAtItsFloor) {
  Training run({.precision = Policy::fp16(), .on_nan = OnNan::kStop});
  run.net.fragile = 0;
  for (int k = 0; k < 2000; ++k) EXPECT_FALSE(commits(run, toy::batch(2)));
  EXPECT_GE(run.trainer.scaler().scale(), 1);
  LossScaler alone;
  for (int k = 0; k < 5000; ++k) (void)alone.overflowed();
  EXPECT_GE(alone.scale(), alone.options().floor);
}

}  // namespace
}  // namespace binade::amp
