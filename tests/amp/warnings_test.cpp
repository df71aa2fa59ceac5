#include "binade/amp/warnings/warnings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/step/remediation_policy.h"
#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/nn/attention.h"
#include "binade/nn/linear.h"
#include "binade/nn/losses.h"
#include "tests/amp/toy.h"

/// Warnings in runs of small models with planted faults.
namespace binade::amp {
namespace {

/// Attention between two linear layers.
struct Sequence : nn::Module {
  nn::Linear in{{.in = 4, .out = 16}};
  nn::MultiHeadAttention attention;
  nn::Linear out{{.in = 16, .out = 2}};
  explicit Sequence(bool composed) : attention({.dim = 16, .heads = 2, .composed = composed}) {}
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("attention", attention);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(relu(attention(in(x)))); }
};

struct SequenceRun {
  Runtime runtime{{.seed = 3, .threads = 1}};
  Sequence model;
  optim::AdamW optimizer{model, {.lr = 1e-3}};
  Trainer trainer;
  std::int64_t tokens;
  double shrink = 1;  // factor of the loss
  std::vector<Warning> warnings;

  explicit SequenceRun(const TrainerOptions& options, std::int64_t length = 6, bool composed = true)
      : model(composed), trainer(runtime, model, optimizer, options), tokens(length) {}
  void to(std::int64_t step) {
    while (trainer.steps() < step) {
      const auto k = static_cast<std::uint32_t>(trainer.steps());
      const StepResult result = trainer.step(
          toy::Batch{toy::random({4, tokens, 4}, k), toy::random({4, tokens, 2}, 7000 + k)},
          [&](const toy::Batch& b) { return nn::mse(model(b.x), Variable(b.target)) * shrink; });
      warnings.insert(warnings.end(), result.warnings.begin(), result.warnings.end());
    }
  }
};

/// The weights of queries and keys grow by `factor` in each step.
TrainerOptions growing_keys(OnNan on_nan, double factor = 1.02) {
  return {.precision = Policy::fp16(),
          .on_nan = on_nan,
          .inject = {fmt::format("scale-weight@step=1,path=attention.query,factor={},every=1", factor),
                     fmt::format("scale-weight@step=1,path=attention.key,factor={},every=1", factor)}};
}

TEST(Warnings, GrowingLogitsAreReportedLongBeforeTheyOverflow) {
  SequenceRun run(growing_keys(OnNan::kStop));
  EXPECT_THROW(run.to(800), NumericError);
  ASSERT_FALSE(run.warnings.empty());
  const Warning& warning = run.warnings.front();
  EXPECT_EQ(warning.kind, WarningKind::kOverflow);
  EXPECT_EQ(warning.module, "attention");
  EXPECT_EQ(warning.op, "matmul");
  EXPECT_EQ(warning.direction, "forward");
  EXPECT_EQ(warning.dtype, "f16");
  const std::int64_t overflow = run.trainer.finished().back().step;
  EXPECT_GE(overflow - warning.step, 50);
  EXPECT_NEAR(warning.steps_left, static_cast<double>(overflow - warning.step),
              0.4 * static_cast<double>(overflow - warning.step));
}

TEST(Warnings, TheOpIsComputedInF32BeforeItOverflows) {
  std::int64_t overflow = 0;
  {
    SequenceRun stopping(growing_keys(OnNan::kStop));
    EXPECT_THROW(stopping.to(800), NumericError);
    overflow = stopping.trainer.finished().back().step;
  }
  SequenceRun run(growing_keys(OnNan::kRemedy));
  run.to(overflow + 20);
  ASSERT_FALSE(run.warnings.empty());
  EXPECT_NE(run.warnings[0].remedy.find(fmt::format("from step {} on", run.warnings[0].step + kTelemetryDelay)),
            std::string::npos);
  ASSERT_FALSE(run.trainer.remediation().promotions().empty());
  EXPECT_EQ(run.trainer.remediation().promotions()[0].target, "attention/matmul");
  for (const StepResult& result : run.trainer.finished()) EXPECT_FALSE(result.incident.has_value()) << result.step;
}

TEST(Warnings, AResumedRunReportsTheSame) {
  struct Seen {
    std::vector<Warning> warnings;
    StateDict state;
  };
  const auto run = [](const Seen& from, std::int64_t to) {
    SequenceRun part(growing_keys(OnNan::kRemedy));
    part.warnings = from.warnings;
    if (!from.state.empty()) part.trainer.load_state(from.state);
    part.to(to);
    return Seen{part.warnings, part.trainer.state()};
  };
  const Seen whole = run({}, 230), after = run(run(run({}, 101), 199), 230);
  ASSERT_FALSE(whole.warnings.empty());
  ASSERT_EQ(after.warnings.size(), whole.warnings.size());
  EXPECT_EQ(after.warnings[0].step, whole.warnings[0].step);
  EXPECT_EQ(after.warnings[0].what, whole.warnings[0].what);
  EXPECT_EQ(after.state.numbers("amp/signs/forecast/samples"), whole.state.numbers("amp/signs/forecast/samples"));
}

TEST(Warnings, AHealthyRunHasNone) {
  for (const Policy& policy : {Policy::fp32(), Policy::fp16(), Policy::bf16(), Policy::pure_bf16()}) {
    SequenceRun run({.precision = policy});
    run.to(600);
    EXPECT_TRUE(run.warnings.empty()) << policy.name << ": " << (run.warnings.empty() ? "" : run.warnings[0].what);
  }
}

/// Returns the warnings of 400 steps at a fixed loss scale, with a loss that is a million times smaller than usual.
std::vector<Warning> warnings_at_scale(double scale) {
  SequenceRun run({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::fixed(scale)});
  run.shrink = 1e-6;
  run.to(400);
  return run.warnings;
}

TEST(Warnings, SilentUnderflowNamesTheOpWhereItBegins) {
  const std::vector<Warning> warnings = warnings_at_scale(1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].kind, WarningKind::kUnderflow);
  EXPECT_EQ(warnings[0].direction, "backward");
  EXPECT_EQ(warnings[0].step, 150);
  EXPECT_FALSE(warnings[0].op.empty());
  EXPECT_TRUE(warnings_at_scale(1e6).empty());
}

TEST(Warnings, AMeasuredLossScaleDoesNotOverflowInTheFirstStep) {
  for (const double loss_factor : {1e-4, 1.0, 1e4}) {
    SequenceRun measured({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::measured()});
    measured.shrink = loss_factor;
    measured.to(300);
    EXPECT_EQ(measured.trainer.skipped(), 0) << loss_factor;
    const std::vector<StepResult> results = measured.trainer.finished();
    EXPECT_GE(results.front().backward_headroom.binades, kMeasuredHeadroom) << loss_factor;
    if (results.front().loss_scale < 0x1p24) {
      EXPECT_LT(results.front().backward_headroom.binades, kMeasuredHeadroom + 1)
          << "the largest power of two, at " << loss_factor;
    }
  }
}

TEST(Warnings, MeasuringTheLossScaleLeavesNoTrace) {
  const auto hash = [](const std::optional<LossScaleOptions>& scale) {
    SequenceRun run({.precision = Policy::fp32(), .loss_scale = scale});
    run.to(5);
    return run.trainer.state_hash();
  };
  EXPECT_EQ(hash(LossScaleOptions::measured()), hash(std::nullopt));
}

/// A network whose loss contains a division by a number in the batch, which shrinks by a fifth in each step.
struct Quotient {
  Runtime runtime{{.seed = 3, .threads = 1}};
  nn::Linear model{{.in = 4, .out = 2}};
  optim::AdamW optimizer{model, {.lr = 1e-3}};
  Trainer trainer;
  std::vector<Warning> warnings;

  explicit Quotient(const TrainerOptions& options) : trainer(runtime, model, optimizer, options) {}
  void to(std::int64_t step) {
    while (trainer.steps() < step) {
      const auto k = static_cast<std::uint32_t>(trainer.steps());
      const auto spread = static_cast<float>(std::pow(0.8, k));
      const Tensor divisor = Tensor::full({1}, spread);
      const StepResult result = trainer.step(
          toy::Batch{toy::random({8, 4}, k), toy::random({8, 2}, 7000 + k, spread)},
          [&](const toy::Batch& b) { return mean(abs((model(b.x) * 1e-3 * spread - b.target) / Variable(divisor))); });
      warnings.insert(warnings.end(), result.warnings.begin(), result.warnings.end());
    }
  }
};

TEST(Warnings, AShrinkingDivisorIsReportedBeforeItReachesTheSingularity) {
  Quotient run({.precision = Policy::fp32()});
  const auto pole = static_cast<std::int64_t>(std::log(1e-18) / std::log(0.8));  // step 186
  run.to(pole);
  const auto warning = std::ranges::find(run.warnings, WarningKind::kSingularity, &Warning::kind);
  ASSERT_NE(warning, run.warnings.end());
  EXPECT_EQ(warning->op, "div");
  EXPECT_EQ(warning->direction, "forward");
  EXPECT_EQ(warning->dtype, "f32");
  EXPECT_GE(pole - warning->step, 20);
  EXPECT_NEAR(warning->steps_left, static_cast<double>(pole - warning->step), 4);
  EXPECT_EQ(std::ranges::count(run.warnings, WarningKind::kSingularity, &Warning::kind), 1);
}

TEST(Warnings, AttentionCollapseIsReportedLongBeforeTheLogitsOverflow) {
  // The factor is 1.01. With 1.02 the entropy falls to a third within 28 steps and fluctuates as much, so that rounding
  // would decide whether the trend is detected before the collapse.
  SequenceRun run(growing_keys(OnNan::kStop, 1.01), 16);
  EXPECT_THROW(run.to(800), NumericError);
  const std::int64_t overflow = run.trainer.finished().back().step;
  const auto warning = std::ranges::find(run.warnings, WarningKind::kCollapse, &Warning::kind);
  ASSERT_NE(warning, run.warnings.end());
  EXPECT_EQ(warning->module, "attention");
  EXPECT_EQ(warning->op, "softmax");
  EXPECT_GE(overflow - warning->step, 50);
  EXPECT_GT(warning->steps_left, 0);
}

TEST(Warnings, AttentionThatHasCollapsedIsNotPredicted) {
  SequenceRun run(growing_keys(OnNan::kStop), 16);
  EXPECT_THROW(run.to(800), NumericError);
  const auto warning = std::ranges::find(run.warnings, WarningKind::kCollapse, &Warning::kind);
  ASSERT_NE(warning, run.warnings.end());
  EXPECT_EQ(warning->what.starts_with("has collapsed"), warning->steps_left == 0) << warning->what;
}

TEST(Warnings, AttentionEntropyIsMeasuredInEvery4thStepForBothAttentions) {
  for (const bool composed : {true, false}) {
    SequenceRun run({.precision = Policy::fp32()}, 16, composed);
    run.to(9);
    for (const StepResult& result : run.trainer.finished()) {
      EXPECT_EQ(result.metric("signs/attention_entropy").has_value(), result.step % 4 == 0) << composed;
      if (result.metric("signs/attention_entropy")) {
        EXPECT_GT(*result.metric("signs/attention_entropy"), 0.9) << "a fresh network looks everywhere";
        EXPECT_LE(*result.metric("signs/attention_entropy"), 1 + 1e-12);
      }
    }
  }
}

TEST(Warnings, GrowingGradientsAreReported) {
  SequenceRun run({.precision = Policy::fp32(), .clip_norm = 1});
  run.to(200);
  EXPECT_TRUE(run.warnings.empty());
  run.shrink = 60;
  run.to(260);
  ASSERT_EQ(run.warnings.size(), 2u);
  EXPECT_EQ(run.warnings[0].kind, WarningKind::kDivergence) << "the loss is that of 60 times the run's";
  EXPECT_EQ(run.warnings[0].step, 205);
  EXPECT_EQ(run.warnings[1].kind, WarningKind::kGradients);
  EXPECT_EQ(run.warnings[1].step, 208);
  EXPECT_EQ(run.warnings[1].direction, "backward");
}

TEST(Warnings, ALearningRateOfZeroIsReportedUnlessItLastsOneStep) {
  const auto warnings = [](const optim::Schedule& schedule, std::int64_t steps) {
    SequenceRun run({.precision = Policy::fp32(), .schedule = schedule});
    run.to(steps);
    return run.warnings;
  };
  const std::vector<Warning> never = warnings(optim::Schedule::constant(0), 60);
  ASSERT_EQ(never.size(), 1u);
  EXPECT_EQ(never[0].kind, WarningKind::kStagnation);
  EXPECT_EQ(never[0].step, 20);
  EXPECT_NE(never[0].what.find("learning rate of 0"), std::string::npos);
  EXPECT_TRUE(warnings(optim::Schedule::linear(1e-3, 50, 0, 10), 60).empty());
  EXPECT_EQ(warnings(optim::Schedule::linear(1e-3, 30, 0, 10), 60).size(), 1u) << "the schedule ended before the run";
}

TEST(Warnings, TheSizeOfUpdatesIsMeasuredInEvery50thStep) {
  SequenceRun run({.precision = Policy::fp32()});
  run.to(100);
  const std::vector<StepResult> results = run.trainer.finished();
  for (const StepResult& result : results)
    EXPECT_EQ(result.metric("signs/update_rms").has_value(), result.step % 50 == 0);
  EXPECT_GT(*results.back().metric("signs/update_rms"), 1e-5);
  EXPECT_LT(*results.back().metric("signs/update_rms"), 2e-3)
      << "Adam's updates are about as large as its learning rate";
}

}  // namespace
}  // namespace binade::amp
