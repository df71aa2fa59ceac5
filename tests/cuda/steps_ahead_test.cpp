#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "binade/core/error.h"
#include "binade/core/gpus.h"
#include "binade/cuda/gpu.h"
#include "binade/io/data/loader.h"
#include "binade/run/training_run.h"
#include "tests/cuda/recorded_lab.h"
#include "tests/error_text.h"
#include "tests/io/scratch_folder.h"

// Steps that are submitted before the host knows the results of earlier steps. This may change the time, but no result.
namespace binade::amp {
namespace {

using namespace recorded_lab;

constexpr std::uint32_t kLong = 56;  // more than 50: step 50 is validated, and the host reads weights in it

class StepsAhead : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  }
  /// Expects that `steps`, submitted ahead, give the same results as eager steps.
  void expect_equal_to_eager(Setting setting, const std::function<void(Training&)>& steps) {
    const auto all = [&](Training& run, std::vector<StepResult>& results) {
      steps(run);
      run.trainer->synchronize();
      results = run.trainer->finished();
    };
    setting.options.ahead = 0;
    const Trace eager = trace(setting, false, all);
    setting.options.ahead = GetParam();
    const Trace ahead = trace(setting, true, all);
    expect_equal(ahead, eager);
    for (std::size_t i = 0; i < ahead.results.size(); ++i) {
      EXPECT_EQ(ahead.results[i].step, eager.results[i].step);
      EXPECT_EQ(ahead.results[i].attempt, eager.results[i].attempt);
      EXPECT_EQ(ahead.results[i].lr, eager.results[i].lr);
      EXPECT_EQ(ahead.results[i].last, eager.results[i].last);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Steps, StepsAhead, testing::Values(1, 2, 8));

void run_steps(Training& run, std::uint32_t steps) {
  for (std::uint32_t k = 0; k < steps; ++k) run.step(batch(k));
}

TEST_P(StepsAhead, HaveTheBitsOfEagerSteps) {
  expect_equal_to_eager({"fp32"}, [](Training& run) { run_steps(run, kLong); });
}

TEST_P(StepsAhead, UseTheScaleAndScheduleOfTheirOwnNumber) {
  expect_equal_to_eager({"fp16",
                         {.precision = Policy::fp16(),
                          .loss_scale = LossScaleOptions{.growth_interval = 7},
                          .schedule = optim::Schedule::cosine(1e-2, 30, 0, 3),
                          .clip_norm = 0.05,
                          .ema = optim::EmaOptions{.decay = 0.9, .warmup = true}}},
                        [](Training& run) { run_steps(run, 30); });
}

TEST_P(StepsAhead, OfOtherOptimizersHaveTheBitsOfEagerSteps) {
  expect_equal_to_eager({"sgd", {.precision = Policy::pure_bf16()}, "sgd"}, [](Training& run) { run_steps(run, 24); });
  expect_equal_to_eager({"lion", {}, "lion"}, [](Training& run) { run_steps(run, 24); });
  expect_equal_to_eager({"two", {.clip_norm = 0.05}, "two"}, [](Training& run) { run_steps(run, 24); });
}

TEST_P(StepsAhead, OfTwoSizesHaveTheBitsOfEagerSteps) {
  expect_equal_to_eager({"fp32"}, [](Training& run) {
    for (std::uint32_t k = 0; k < 30; ++k) run.step(batch(k, k % 3 == 2 ? 2 : 4));
  });
}

/// The step in flight may overwrite the gradients of the step before.
TEST_P(StepsAhead, LeaveNoGradientsToRead) {
  Training run({"fp32", {.ahead = GetParam()}}, true);
  int refusals = 0;
  for (std::uint32_t k = 0; k < 12; ++k) {
    run.step(batch(k));
    if (run.trainer->in_flight() == 0) continue;
    ++refusals;
    EXPECT_THAT(test::error_of<AutogradError>([&] { run.net.first.weight.grad(); }),
                testing::HasSubstr("after a captured step"))
        << k;
  }
  EXPECT_GT(refusals, 0);
}

TEST_P(StepsAhead, AfterAStepThatDoesNotCommitRunAgain) {
  for (const std::uint32_t bad : {20u, 48u})
    expect_equal_to_eager({"fp32"}, [bad](Training& run) {
      for (std::uint32_t k = 0; k < kLong; ++k) {
        io::ImageBatch b = batch(k);
        if (k == bad) b.images.mutable_data<float>()[70] = std::numeric_limits<float>::quiet_NaN();
        run.step(b);
      }
    });
}

TEST_P(StepsAhead, AfterASkippedBatchHaveItsStepNumber) {
  expect_equal_to_eager({"fp32"}, [](Training& run) {
    for (std::uint32_t k = 0; k < 30; ++k) {
      io::ImageBatch b = batch(k);
      if (k == 17) b.images.fill(std::numeric_limits<double>::quiet_NaN());
      run.step(b);
    }
    EXPECT_EQ(run.trainer->steps() + run.trainer->in_flight(), 29);
  });
}

TEST_P(StepsAhead, AfterAnOverflowRunAtTheLowerScale) {
  expect_equal_to_eager({"fp16", {.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p19)}},
                        [](Training& run) {
                          for (std::uint32_t k = 0; k < 30; ++k) {
                            io::ImageBatch b = batch(k);
                            if (k == 18)
                              for (std::int64_t i = 0; i < b.images.numel(); ++i)
                                b.images.mutable_data<float>()[i] *= 3000;
                            run.step(b);
                          }
                        });
}

TEST_P(StepsAhead, AfterAnAbsurdLossRunWithoutItsBatch) {
  expect_equal_to_eager({"fp32"}, [](Training& run) {
    for (std::uint32_t k = 0; k < kLong; ++k) {
      io::ImageBatch b = batch(k);
      if (k == 53)  // inverts the targets, so that loss and gradients grow
        for (std::int64_t i = 0; i < b.masks.numel(); ++i) {
          std::uint8_t& target = b.masks.mutable_data<std::uint8_t>()[i];
          target = target == 0 ? 255 : 0;
        }
      run.step_with_probes(b);
    }
    run.trainer->synchronize();
    EXPECT_EQ(run.trainer->steps(), kLong - 1);
  });
}

TEST_P(StepsAhead, AfterARollbackAreDropped) {
  expect_equal_to_eager({"fp32"}, [](Training& run) {
    std::optional<RecoveryPoint> point;
    run.trainer->set_recovery([&](std::int64_t newest, std::int64_t after) -> std::optional<RecoveryPoint> {
      if (!point || point->step > newest || point->step <= after) return std::nullopt;
      return point;
    });
    bool struck = false;
    std::uint32_t calls = 0;
    while (!run.trainer->has_committed(30) && ++calls < 80) {
      const std::int64_t next = run.trainer->steps() + run.trainer->in_flight() + 1;
      if (next == 13 && !point) point = RecoveryPoint{12, "that of step 12", run.trainer->state()};
      if (next == 20 && !std::exchange(struck, true)) {
        run.trainer->synchronize();
        run.net.last.weight.mutable_value().fill(std::numeric_limits<double>::quiet_NaN());
      }
      const StepResult result = run.step(batch(static_cast<std::uint32_t>(next)));
      if (result.incident) {
        EXPECT_EQ(result.incident->remedy.action, RemedyAction::kRollback);
        EXPECT_EQ(run.trainer->steps(), 12);
        EXPECT_EQ(run.trainer->in_flight(), 0);
      }
    }
    EXPECT_TRUE(struck);
    run.trainer->set_recovery(nullptr);
  });
}

TEST_P(StepsAhead, WithoutARemedyThrowAtTheNextSynchronization) {
  Training run({"fp32", {.on_nan = OnNan::kStop, .ahead = GetParam()}}, true);
  run_steps(run, 16);
  run.trainer->synchronize();
  io::ImageBatch bad = batch(16);
  bad.images.fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(run.step(bad).in_flight);
  EXPECT_THROW(run.trainer->synchronize(), NumericError);
  EXPECT_EQ(run.trainer->steps(), 16);
  EXPECT_EQ(run.trainer->in_flight(), 0);
  run.step(batch(17));
  run.trainer->synchronize();
  EXPECT_EQ(run.trainer->steps(), 17) << "the run goes on where its caller wants it to";
}

TEST_P(StepsAhead, AreSubmittedWithoutAWait) {
  Training run({"bf16", {.precision = Policy::bf16(), .ahead = GetParam()}}, true);
  std::int64_t most = 0;
  for (std::uint32_t k = 0; k < 48; ++k) {
    const std::uint64_t before = cuda::waits();
    const StepResult result = run.step(batch(k));
    if (k >= 12) {  // graphs with and without probes are captured and validated by now
      EXPECT_TRUE(result.in_flight) << k;
      EXPECT_EQ(cuda::waits(), before) << k;
      EXPECT_EQ(result.step, k + 1);
    }
    most = std::max(most, run.trainer->in_flight());
  }
  EXPECT_EQ(most, GetParam());
  EXPECT_EQ(run.trainer->finished().size(), 48u - static_cast<std::size_t>(GetParam()));
}

TEST_P(StepsAhead, AreFinishedBeforeStateIsReadOrEvaluated) {
  std::vector<double> losses;
  std::vector<std::string> hashes;
  for (const std::int64_t ahead : {GetParam(), std::int64_t{0}}) {
    Training run({"fp32", {.ahead = ahead}}, true);
    run_steps(run, 20);
    EXPECT_EQ(run.trainer->in_flight() > 0, ahead > 0);
    EXPECT_EQ(run.trainer->state().integer("progress/step"), 20);
    EXPECT_EQ(run.trainer->in_flight(), 0);
    run.step(batch(20));
    run.step(batch(21));
    EXPECT_EQ(run.trainer->in_flight() > 0, ahead > 0);
    losses.push_back(run.trainer->evaluate([&] { return loss_of(run.net, batch(3).to(Device::cuda())).item(); }));
    run.step(batch(22));
    hashes.push_back(run.trainer->state_hash());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(hashes[0], hashes[1]);
}

/// A whole program with a run folder.
void program(const std::string& folder, bool record, std::int64_t ahead, std::int64_t cut = -1) {
  Training net({"fp16", {.precision = Policy::fp16(), .accumulate = 2, .ahead = ahead}}, record);
  io::Loader<io::ImageBatch> loader({.batch = 4, .seed = 3, .samples = 40, .content = "squares"},
                                    [](const io::BatchOrigin& origin) {
                                      io::ImageBatch b = batch(static_cast<std::uint32_t>(origin.samples[0]));
                                      b.origin = origin;
                                      return b;
                                    });
  TrainingRun run(*net.trainer,
                  {.folder = folder,
                   .steps = 41,
                   .checkpoint_every = 15,
                   .eval_every = 10,
                   .log_every = 1000,
                   .evaluate = [&]() -> Evaluation {
                     return {.numbers = {{"val_loss", loss_of(net.net, batch(99).to(Device::cuda())).item()}}};
                   },
                   .score = "val_loss",
                   .forecast_memory = false});
  run.resume_if_possible();
  for (const auto& b : run.batches(loader)) {
    run.step(b, [&](const io::ImageBatch& there) { return loss_of(net.net, there); });
    if (cut > 0 && net.trainer->steps() >= cut) break;
  }
}

TEST_P(StepsAhead, OfARunAreLoggedAsIfEachHadBeenWaitedFor) {
  const io::ScratchFolder folder;
  program(folder.path("eager"), false, 0);
  program(folder.path("ahead"), true, GetParam());
  program(folder.path("cut"), true, GetParam(), 23);
  program(folder.path("cut"), true, GetParam());
  // A save is skipped while another one is being written, so only the last checkpoint certainly exists.
  for (const std::string file : {"metrics.jsonl", "checkpoints/ckpt-000000000041.h5"})
    for (const std::string run : {"ahead/", "cut/"})
      EXPECT_EQ(folder.read(run + file), folder.read("eager/" + file)) << run << file;
  EXPECT_EQ(folder.read("ahead/headroom.jsonl"), folder.read("eager/headroom.jsonl"));
}

TEST(StepsAheadOptions, AreCheckedWhenTheTrainerIsMade) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  EXPECT_THROW(Training({"fp32", {.ahead = 9}}, true), ArgumentError);
  EXPECT_THROW(Training({"fp32", {.ahead = -1}}, true), ArgumentError);
}

}  // namespace
}  // namespace binade::amp
