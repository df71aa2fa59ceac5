#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/core/gpus.h"
#include "binade/cuda/gpu.h"
#include "tests/cuda/recorded_lab.h"

// Captured steps, compared with the same steps run eagerly: every bit of the state must be equal.
namespace binade::amp {
namespace {

using namespace recorded_lab;
using testing::HasSubstr;
using testing::StartsWith;

class RecordedStep : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  }
};

TEST_P(RecordedStep, HasTheBitsOfEagerSteps) {
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) results.push_back(run.step(batch(k)));
  };
  expect_equal(trace(GetParam(), true, steps), trace(GetParam(), false, steps));
}

std::vector<Setting> settings() {
  return {
      {"fp32", {}},
      {"fp32_clipped", {.clip_norm = 0.05}},
      {"fp32_by_value", {.clip_value = 0.01}, "sgd"},
      {"fp32_averaged", {.ema = optim::EmaOptions{.decay = 0.9, .warmup = true}}, "lion"},
      {"amsgrad", {}, "amsgrad"},
      {"nadam", {}, "nadam"},
      {"rprop", {}, "rprop"},
      {"schedule_free", {.precision = Policy::bf16()}, "schedule_free"},
      {"fp16", {.precision = Policy::fp16()}},
      {"bf16_unwatched", {.precision = Policy::bf16(), .telemetry = false}},
      {"pure_bf16", {.precision = Policy::pure_bf16()}, "sgd"},
      {"groups", {.schedule = optim::Schedule::cosine(1e-2, 12, 0, 3), .clip_norm = 0.5}, "groups"},
      {"two", {.clip_norm = 0.05}, "two"},
      {"two_averaged", {.precision = Policy::fp16(), .ema = optim::EmaOptions{.decay = 0.9, .warmup = true}}, "two"},
      {"two_pure_bf16", {.precision = Policy::pure_bf16()}, "two"},
      {"scheduled", {.precision = Policy::bf16(), .schedule = optim::Schedule::cosine(1e-2, 12, 0, 3)}}};
}
INSTANTIATE_TEST_SUITE_P(Settings, RecordedStep, testing::ValuesIn(settings()),
                         [](const auto& setting) { return setting.param.name; });

TEST(RecordedSteps, DoNotWait) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"fp16", {.precision = Policy::fp16(), .clip_norm = 1}}, true);
  for (std::int64_t step = 1; step <= 54; ++step) {
    const std::uint64_t before = cuda::waits();
    const StepResult result = run.step_with_probes(batch(static_cast<std::uint32_t>(step)));
    for (const std::string& note : result.notes) ADD_FAILURE() << note;
    EXPECT_TRUE(result.committed);
    EXPECT_EQ(result.metric("signs/attention_entropy").has_value(), step % 4 == 0) << step;
    // Of each graph specialization the first two steps run eagerly, the second one to validate the graph; at step 50
    // the host reads weights.
    if (step > 8 && step != 50) {
      EXPECT_EQ(cuda::waits(), before) << step;
    }
  }
}

TEST(RecordedSteps, GiveTheWarningsOfEagerSteps) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  // The images grow by 2 % per step, until results reach their limits.
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < 240; ++k) {
      io::ImageBatch b = batch(0, 2, 4);
      const double factor = 4 * std::exp2(0.03 * static_cast<double>(k));
      for (std::int64_t i = 0; i < b.images.numel(); ++i)
        b.images.mutable_data<float>()[i] *= static_cast<float>(factor);
      results.push_back(run.step_with_probes(b));
    }
  };
  const Setting fp16{"fp16", {.precision = Policy::fp16()}};
  const Trace recorded = trace(fp16, true, steps);
  expect_equal(recorded, trace(fp16, false, steps));
  std::vector<std::string> all;
  for (const StepResult& result : recorded.results)
    for (const Warning& warning : result.warnings) all.emplace_back(name_of(warning.kind));
  for (const WarningKind kind : {WarningKind::kOverflow, WarningKind::kSingularity, WarningKind::kCollapse})
    EXPECT_THAT(all, testing::Contains(name_of(kind)));
}

TEST(RecordedSteps, GiveTheWarningsAboutSilentDefectsOfEagerSteps) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  // A dead ReLU, and an infinity that tanh turns into a finite number.
  const auto loss = [](Net& net, const io::ImageBatch& b) {
    Tensor target = Tensor::empty(b.images.shape(), DType::f32, b.images.device());
    target.copy_from(b.masks.reshape(b.images.shape()));
    const Variable h = net.norm(net.first(Variable(b.images)));
    return bce_with_logits(net.last(relu(h - 1e4) + tanh((h.detach() + 1.0) * 1e6)), Variable(target));
  };
  const auto steps = [&](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < 104; ++k)
      results.push_back(run.trainer->step(batch(k, 2, 4), [&](const io::ImageBatch& b) { return loss(run.net, b); }));
  };
  const Setting fp16{"fp16", {.precision = Policy::fp16()}};
  const Trace recorded = trace(fp16, true, steps);
  expect_equal(recorded, trace(fp16, false, steps));
  std::vector<std::string> all;
  for (const StepResult& result : recorded.results)
    for (const Warning& warning : result.warnings)
      all.push_back(fmt::format("{} {}", warning.op.empty() ? warning.module : warning.op, name_of(warning.kind)));
  EXPECT_THAT(all, testing::ElementsAre("mul_scalar swallowed overflow", "first untrained parameters"));
}

TEST(RecordedSteps, CallTheClosureOnlyUntilTheyAreCaptured) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"fp32"}, true);
  int calls = 0;
  for (std::uint32_t k = 0; k < 8; ++k)
    run.trainer->step(batch(k), [&](const io::ImageBatch& b) {
      ++calls;
      return loss_of(run.net, b);
    });
  // One call in the first step. Then four calls for each of the two graph specializations (with and without probes): an
  // eager step, the traced run, the capture, and the eager step that validates it.
  EXPECT_LE(calls, 9);
}

TEST(RecordedSteps, OfTwoOptimizersAreCaptured) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"two", {.clip_norm = 0.05}, "two"}, true);
  int calls = 0;
  for (std::uint32_t k = 0; k < 12; ++k) {
    const StepResult result = run.trainer->step(batch(k), [&](const io::ImageBatch& b) {
      ++calls;
      return loss_of(run.net, b);
    });
    EXPECT_TRUE(result.committed);
    for (const std::string& note : result.notes) ADD_FAILURE() << note;
    EXPECT_TRUE(result.metric("lr/inner/norm.*") && result.metric("lr/outer")) << k;
  }
  EXPECT_LE(calls, 9) << "as with one optimizer";
  EXPECT_EQ(run.optimizer->updates(), 12);
  EXPECT_EQ(run.second->updates(), 12);
}

/// If the device refuses a step, it updates neither of the optimizers.
TEST(RecordedSteps, OfTwoOptimizersCommitBothOrNone) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      io::ImageBatch b = batch(k);
      if (k == 9) b.images.mutable_data<float>()[70] = std::numeric_limits<float>::quiet_NaN();
      results.push_back(run.step(b));
    }
  };
  const Setting two{"two", {.clip_norm = 0.05}, "two"};
  expect_equal(trace(two, true, steps), trace(two, false, steps));
}

/// A step with phases may run without one of the optimizers, and compute gradients for only some parameters of the
/// other. The captured steps after it must update all parameters, and each must use new random numbers.
TEST(RecordedSteps, AfterAStepWithPhasesHaveTheBitsOfEagerSteps) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    const auto squares = [&](const io::ImageBatch& b) {
      const Variable h = run.net.first(Variable(b.images));
      return mean(cast(h * h, DType::f32));
    };
    int calls = 0;
    const auto loss = [&](const io::ImageBatch& b) {
      ++calls;
      return loss_of(run.net, b);
    };
    for (std::uint32_t k = 0; k < 40; ++k)
      results.push_back(k == 12 || k == 13 || k == 25
                            ? run.trainer->step(batch(k), Phases(phase(*run.optimizer, squares)))
                            : run.trainer->step(batch(k), loss));
    EXPECT_EQ(run.optimizer->updates(), 40);
    EXPECT_EQ(run.second->updates(), 37);
    if (run.trainer->options().record) {
      EXPECT_LT(calls, 35) << "most steps are captured";
    }
  };
  for (const Policy& policy : {Policy::fp32(), Policy::pure_bf16()}) {
    const Setting two{"two", {.precision = policy}, "two"};
    expect_equal(trace(two, true, steps), trace(two, false, steps));
  }
}

TEST(RecordedSteps, DoNotCaptureUserOptimizersAndHooks) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto notes_of = [](Training& run) {
    std::vector<std::string> notes;
    for (std::uint32_t k = 0; k < 4; ++k) {
      const StepResult result = run.step(batch(k));
      EXPECT_TRUE(result.committed);
      notes.insert(notes.end(), result.notes.begin(), result.notes.end());
    }
    return notes;
  };
  {
    Training user({"user", {}, "rmsprop"}, true);
    EXPECT_THAT(notes_of(user), testing::Contains(HasSubstr("cannot decide about the updates of rmsprop")));
  }
  Training hooked({"hooked"}, true);
  int calls = 0;
  HookHandle handle = hooked.net.first.register_forward_hook([&](auto&&...) { ++calls; });
  EXPECT_THAT(notes_of(hooked), testing::Contains(HasSubstr("there are hooks")));
  EXPECT_EQ(calls, 4);
}

TEST(RecordedSteps, OfTwoSizesHaveTwoGraphs) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) results.push_back(run.step(batch(k, k % 3 == 2 ? 2 : 4)));
  };
  expect_equal(trace({"fp32"}, true, steps), trace({"fp32"}, false, steps));
}

TEST(RecordedSteps, AcceptMicroBatches) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      const MicroBatches<io::ImageBatch> parts{{batch(2 * k), batch(2 * k + 1)}};
      results.push_back(run.trainer->step(parts, [&](const io::ImageBatch& b) { return loss_of(run.net, b); }));
    }
  };
  const Setting fp16{"fp16", {.precision = Policy::fp16(), .clip_norm = 0.5}};
  expect_equal(trace(fp16, true, steps), trace(fp16, false, steps));
}

TEST(RecordedSteps, ThatDoNotCommitRunAgainEagerly) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      io::ImageBatch b = batch(k);
      if (k == 7) b.images.mutable_data<float>()[70] = std::numeric_limits<float>::quiet_NaN();
      results.push_back(run.step(b));
    }
  };
  const Trace recorded = trace({"fp32"}, true, steps);
  expect_equal(recorded, trace({"fp32"}, false, steps));
  EXPECT_EQ(recorded.results[7].samples_left_out, (std::vector<std::int64_t>{1}));
}

TEST(RecordedSteps, LowerTheLossScaleAfterAnOverflow) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      io::ImageBatch b = batch(k);
      if (k == 8)
        for (std::int64_t i = 0; i < b.images.numel(); ++i) b.images.mutable_data<float>()[i] *= 3000;
      results.push_back(run.step(b));
    }
  };
  const Setting fp16{"fp16", {.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p19)}};
  expect_equal(trace(fp16, true, steps), trace(fp16, false, steps));
}

TEST(RecordedSteps, WhoseClosureReadsChangingStateAreDetected) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"fp32"}, true);
  double weight = 1;
  std::vector<std::string> notes;
  for (std::uint32_t k = 0; k < 52; ++k) {
    if (k == 30) weight = 2;
    const StepResult result = run.trainer->step(batch(k),
                                                [&](const io::ImageBatch& b) { return loss_of(run.net, b) * weight; });
    EXPECT_TRUE(result.committed);
    for (const std::string& note : result.notes) notes.push_back(fmt::format("{}: {}", result.step, note));
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], StartsWith("50: "));
  EXPECT_THAT(notes[0], HasSubstr("the closure reads state, besides its batch and the model, that has changed"));
}

TEST(RecordedSteps, WhoseClosureReadsValuesRunEagerly) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"fp32"}, true);
  std::vector<std::string> notes;
  for (std::uint32_t k = 0; k < 6; ++k) {
    const StepResult result = run.trainer->step(batch(k), [&](const io::ImageBatch& b) {
      const Variable loss = loss_of(run.net, b);
      EXPECT_TRUE(std::isfinite(loss.item()));
      return loss;
    });
    EXPECT_TRUE(result.committed);
    notes.insert(notes.end(), result.notes.begin(), result.notes.end());
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("run eagerly"));
}

}  // namespace
}  // namespace binade::amp
