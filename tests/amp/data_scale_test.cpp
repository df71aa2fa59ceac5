// Data whose magnitude changes at once: losses and gradients change with it, which is no defect of the run.
#include "binade/amp/warnings/data_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "binade/autograd/functions/losses.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

/// Returns a factor of the inputs for each step.
using Factor = std::function<float(std::int64_t step)>;

struct Training {
  explicit Training(TrainerOptions options = {}) : trainer(runtime, net, optimizer, std::move(options)) {}

  void step(float factor) {
    toy::Batch b = toy::batch(static_cast<std::uint32_t>(trainer.steps() + 1));
    for (std::int64_t i = 0; i < b.x.numel(); ++i) b.x.mutable_data<float>()[i] *= factor;
    step(b);
  }
  void step(const toy::Batch& b) {
    trainer.step(b, [this](const toy::Batch& one) { return mse(net(one.x), Variable(one.target)); });
    for (const StepResult& result : trainer.finished()) {
      incidents += result.incident ? 1 : 0;
      for (const Warning& warning : result.warnings) warnings.push_back(warning);
    }
  }
  void steps(std::int64_t count, const Factor& factor) {
    for (std::int64_t k = 1; k <= count; ++k) step(factor(k));
  }
  std::int64_t count(WarningKind kind) const { return std::ranges::count(warnings, kind, &Warning::kind); }

  Runtime runtime{{.seed = 9, .threads = 1}};
  toy::Two net;
  optim::AdamW optimizer{net, {.lr = 1e-3}};
  Trainer trainer;
  std::vector<Warning> warnings;
  int incidents = 0;
};

/// A tenfold input alone makes the squared error a hundred times larger.
TEST(DataScale, InputsThatGrowAtOnceRaiseNoWarning) {
  for (const std::string precision : {"fp32", "bf16"})
    for (const float factor : {2.5f, 10.0f, 100.0f, 0.01f})
      for (const std::int64_t at : {20, 200}) {
        Training run({.precision = Policy::by_name(precision)});
        run.steps(at + 250, [&](std::int64_t k) { return k > at ? factor : 1.0f; });
        EXPECT_EQ(run.incidents, 0) << precision << " " << factor << " " << at;
        for (const Warning& w : run.warnings)
          ADD_FAILURE() << precision << " " << factor << " from step " << at << ": " << location_of(w) << ": "
                        << w.what;
      }
}

TEST(DataScale, AlsoIfTheyGrowStepByStepOrAgain) {
  {
    Training ramp;
    ramp.steps(500,
               [](std::int64_t k) { return std::pow(3.0f, std::clamp(static_cast<float>(k - 150) / 200, 0.f, 1.f)); });
    for (const Warning& w : ramp.warnings) ADD_FAILURE() << w.step << ": " << w.what;
  }
  Training twice;
  twice.steps(500, [](std::int64_t k) { return k <= 150 ? 1.0f : k <= 300 ? 30.0f : 900.0f; });
  for (const Warning& w : twice.warnings) ADD_FAILURE() << w.step << ": " << w.what;
}

/// The control: without telemetry, which measures the data, the same inputs raise warnings.
TEST(DataScale, WithoutTelemetryTheyRaiseWarnings) {
  Training run({.telemetry = false});
  run.steps(450, [](std::int64_t k) { return k > 200 ? 100.0f : 1.0f; });
  EXPECT_GE(run.count(WarningKind::kGradients), 1);
  EXPECT_GE(run.count(WarningKind::kDivergence), 1);
}

/// The control: the same growth by the weights is reported.
TEST(DataScale, WeightsThatGrowAreReported) {
  Training run({.on_nan = OnNan::kSkip});
  run.steps(200, [](std::int64_t) { return 1.0f; });
  for (const auto& [name, parameter] : nn::named_parameters(run.net))
    for (std::int64_t i = 0; i < parameter->value().numel(); ++i)
      parameter->state()->value.mutable_data<float>()[i] *= 30;
  run.optimizer.weights_changed();
  run.steps(20, [](std::int64_t) { return 1.0f; });
  EXPECT_GE(run.count(WarningKind::kGradients) + run.count(WarningKind::kDivergence), 1);
}

/// A batch whose data alone is unusual explains nothing about the run: the warning comes one step later.
TEST(DataScale, OneBadBatchIsReportedWhenTheDataIsUsualAgain) {
  Training run({.on_nan = OnNan::kSkip});
  run.steps(200, [](std::int64_t) { return 1.0f; });
  toy::Batch b = toy::batch(201);
  b.x.mutable_data<float>()[3] = 3e3f;
  run.step(b);
  EXPECT_TRUE(run.warnings.empty());
  run.step(1);
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_EQ(run.warnings[0].kind, WarningKind::kGradients);
  EXPECT_EQ(run.warnings[0].step, 201);
}

TEST(DataScale, AResumedRunGivesTheSameWarnings) {
  const Factor factor = [](std::int64_t k) { return k > 150 && k <= 153 ? 300.0f : 1.0f; };
  for (const std::int64_t cut : {149, 151, 152, 153, 154}) {
    std::string hash;
    std::size_t warnings = 0;
    {
      Training whole({.on_nan = OnNan::kSkip});
      whole.steps(160, factor);
      hash = whole.trainer.state_hash();
      warnings = whole.warnings.size();
    }
    StateDict state;
    std::size_t before = 0;
    {
      Training first({.on_nan = OnNan::kSkip});
      first.steps(cut, factor);
      state = first.trainer.state();
      before = first.warnings.size();
    }
    Training second({.on_nan = OnNan::kSkip});
    second.trainer.load_state(state);
    for (std::int64_t k = cut + 1; k <= 160; ++k) second.step(factor(k));
    EXPECT_EQ(second.trainer.state_hash(), hash) << cut;
    EXPECT_EQ(before + second.warnings.size(), warnings) << cut;
    EXPECT_GE(warnings, 1u);
  }
}

TEST(DataScale, RefusesADamagedState) {
  StateDict state;
  state.put("readers", std::string("a\nlinear\n"));
  state.put("usual", StateDict::Integers{3});
  state.put("unusual", StateDict::Integers{0});
  state.put("levels", StateDict::Numbers{1, 2});
  state.put("unusual_steps", std::int64_t{0});
  DataScale scale;
  EXPECT_THROW(scale.load_state(state), CheckpointError);
}

}  // namespace
}  // namespace binade::amp
