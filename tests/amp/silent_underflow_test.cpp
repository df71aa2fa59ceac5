#include "binade/amp/warnings/silent_underflow.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "binade/amp/warnings/stagnation.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/core/error.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

constexpr OpInfo kRelu{.name = "relu"}, kLinear{.name = "linear"};

/// Returns 1000 gradients at a loss scale: `legal` gradients are 0 at every scale, `small` gradients are `tiny` times
/// the scale, and the rest are 1e-3 times the scale.
Tensor gradients(double scale, int legal, int small, double tiny) {
  std::vector<float> values(1000, static_cast<float>(1e-3 * scale));
  for (int i = 0; i < legal + small; ++i)
    values[static_cast<std::size_t>((7 * i) % 1000)] = i < legal ? 0 : static_cast<float>(tiny * scale);
  return Tensor::from(values, {1000}).to(DType::f16);
}

struct Place {
  const OpInfo& info;
  int legal = 0, small = 0;
  double tiny = 1e-9;
};

/// Returns the telemetry of a step whose backward runs the ops at `places` from the last to the first.
Telemetry step_at(double scale, const std::vector<Place>& places) {
  Telemetry telemetry;
  telemetry.begin({.zeros = true});
  for (std::size_t i = places.size(); i-- > 0;) {
    const std::string path = "layer" + std::to_string(i);
    const Tensor gx = gradients(scale, places[i].legal, places[i].small, places[i].tiny);
    telemetry.after_backward({places[i].info, path, static_cast<std::int64_t>(i), Direction::kBackward}, {}, {&gx, 1},
                             observe(gx));
  }
  return telemetry;
}

/// Passes the probes of steps `from`, `from` + 50, … to the detector. Whenever it requests an extra backward at a
/// higher scale, passes this too, and counts it in `proofs`. Returns the warnings.
std::vector<Warning> warnings_of(SilentUnderflow& underflow, double scale, const std::vector<Place>& places,
                                 std::int64_t from, std::int64_t to, int* proofs = nullptr) {
  std::vector<Warning> warnings;
  for (std::int64_t step = from; step <= to; step += 50) {
    std::optional<Telemetry> raised;
    if (const auto factor = underflow.confirmation_factor(step)) {
      raised = step_at(scale * *factor, places);
      if (proofs != nullptr) ++*proofs;
    }
    if (auto warning = underflow.observe(step, scale, step_at(scale, places), raised ? &*raised : nullptr))
      warnings.push_back(*warning);
  }
  return warnings;
}

TEST(SilentUnderflow, FlushedGradientsAreReportedOnceAfterThreeProbes) {
  SilentUnderflow underflow;
  const auto warnings = warnings_of(underflow, 1, {{kLinear}, {kLinear, 100, 700}}, 50, 2000);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].step, 150);
  EXPECT_EQ(warnings[0].module, "layer1");
  EXPECT_EQ(warnings[0].op, "linear");
  EXPECT_EQ(warnings[0].direction, "backward");
  EXPECT_NE(warnings[0].what.find("78 % of"), std::string::npos) << warnings[0].what << ": 700 of 900";
}

TEST(SilentUnderflow, IntendedZerosAreNotReported) {
  SilentUnderflow underflow;
  int proofs = 0;
  const auto warnings = warnings_of(underflow, 1, {{kRelu, 600}, {kRelu, 950}, {kLinear, 0, 300}, {kRelu, 1000}}, 50,
                                    5000, &proofs);
  EXPECT_TRUE(warnings.empty()) << warnings[0].step << " " << warnings[0].module << ": " << warnings[0].what;
  EXPECT_EQ(proofs, 1) << "what was settled is not asked again";
}

TEST(SilentUnderflow, UnderflowBesideIntendedZerosIsReported) {
  SilentUnderflow underflow;
  EXPECT_TRUE(warnings_of(underflow, 1, {{kRelu, 600}}, 50, 1000).empty());
  EXPECT_EQ(warnings_of(underflow, 1, {{kRelu, 600, 390}}, 1050, 2000).size(), 1u)
      << "390 of the 400 that are no legal zeros";
}

TEST(SilentUnderflow, ATensorThatIsAllZeroNeedsNoExtraBackwardAndNamesTheFirstOp) {
  SilentUnderflow underflow;
  Telemetry telemetry;
  std::vector<Warning> warnings;
  for (std::int64_t step = 50; step <= 400; step += 50) {
    telemetry.begin({.zeros = true});
    const Tensor zeros = Tensor::zeros({8}, DType::f16);
    for (const std::int64_t place : {2, 1, 0}) {  // in layer1 the maximum before rounding was not 0
      const Observation seen{.low = place == 2 ? 0x3a000000u : place == 1 ? 0x32000000u : 0u};
      telemetry.after_backward({kLinear, "layer" + std::to_string(place), place, Direction::kBackward}, {}, {&zeros, 1},
                               seen);
    }
    EXPECT_FALSE(location_of(Warning{}).empty());
    if (auto warning = underflow.observe(step, 1, telemetry, nullptr)) warnings.push_back(*warning);
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].module, "layer1");
  EXPECT_NE(warnings[0].what.find("all its gradients"), std::string::npos);
}

TEST(SilentUnderflow, BriefUnderflowOrNoRoomForAHigherScaleIsNotReported) {
  SilentUnderflow underflow;
  EXPECT_TRUE(warnings_of(underflow, 1, {{kLinear, 0, 900}}, 50, 100).empty());
  EXPECT_TRUE(warnings_of(underflow, 1, {{kLinear}}, 150, 200).empty());
  EXPECT_TRUE(warnings_of(underflow, 1, {{kLinear, 0, 900}}, 250, 300).empty());
  SilentUnderflow high;
  int proofs = 0;
  EXPECT_TRUE(warnings_of(high, 0x1p24, {{kLinear, 0, 900, 1e-16}}, 50, 1000, &proofs).empty());
  EXPECT_EQ(proofs, 0) << "its largest gradients leave two binades";
}

TEST(SilentUnderflow, ANonFiniteStepIsIgnored) {
  const std::vector<Place> places = {{kLinear, 100, 700}};
  for (const double planted : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    SilentUnderflow underflow;
    Telemetry bad;
    bad.begin({.zeros = true});
    const Tensor gx = Tensor::full({1000}, planted, DType::f16);
    bad.after_backward({kLinear, "layer0", 0, Direction::kBackward}, {}, {&gx, 1}, observe(gx));
    EXPECT_FALSE(underflow.observe(50, 1, bad, nullptr).has_value());
    EXPECT_EQ(warnings_of(underflow, 1, places, 100, 1000).size(), 1u);
  }
}

TEST(SilentUnderflow, ARestoredStateGivesTheSameWarnings) {
  const std::vector<Place> places = {{kRelu, 600}, {kLinear, 0, 800}};
  SilentUnderflow whole;
  const auto expected = warnings_of(whole, 1, places, 50, 300);
  ASSERT_EQ(expected.size(), 1u);
  for (std::int64_t cut = 50; cut < 300; cut += 50) {
    SilentUnderflow first, second;
    auto warnings = warnings_of(first, 1, places, 50, cut);
    second.load_state(first.state());
    for (const Warning& warning : warnings_of(second, 1, places, cut + 50, 300)) warnings.push_back(warning);
    ASSERT_EQ(warnings.size(), 1u) << cut;
    EXPECT_EQ(warnings[0].step, expected[0].step);
    EXPECT_EQ(warnings[0].what, expected[0].what);
  }
  StateDict bad = whole.state(), part = bad.section("forward");
  StateDict lost;
  lost.put("headroom", 1.0);
  EXPECT_THROW(whole.load_state(lost), CheckpointError);
}

// ---- updates that are too small
// ----------------------------------------------------------------------------------------

struct Weights {
  Variable weight{toy::random({64, 16}, 5, 0.5f), true}, bias{Tensor::zeros({64}), true};
  optim::AdamW optimizer{{{"layer.weight", weight}, {"layer.bias", bias}}, {.lr = 1e-3, .weight_decay = 0}};

  Weights(DType dtype, bool stochastic) {
    if (dtype != DType::f32) optimizer.store_weights_in(dtype, stochastic);
  }
  std::optional<Warning> step(Stagnation& stagnation, std::int64_t step, double lr, bool stochastic,
                              float gradient = 1) {
    for (const Variable& v : {weight, bias}) {
      Variable::State& state = *v.state();
      state.grad = toy::random(v.shape(), static_cast<std::uint32_t>(step), gradient);
      state.grad_defined = true;
    }
    const optim::StepInput input{.lr = lr};
    stagnation.before_update(optimizer, input);
    optimizer.step(input);
    return stagnation.after_update(step, input.lr, stochastic);
  }
  int warnings(double lr, bool stochastic, Warning* last = nullptr) {
    Stagnation stagnation;
    int count = 0;
    for (std::int64_t k = 50; k <= 500; k += 50)
      if (const auto warning = step(stagnation, k, lr, stochastic)) {
        ++count;
        if (last != nullptr) *last = *warning;
      }
    return count;
  }
};

TEST(Stagnation, TooSmallUpdatesAreReportedOnceWithASufficientLearningRate) {
  for (const auto& [dtype, lr] : {std::pair(DType::f32, 1e-12), {DType::bf16, 1e-6}, {DType::f16, 1e-7}}) {
    Warning warning;
    EXPECT_EQ(Weights(dtype, false).warnings(lr, false, &warning), 1) << name_of(dtype);
    EXPECT_EQ(warning.step, 150);
    EXPECT_EQ(warning.dtype, name_of(dtype));
    const double wanted = std::stod(warning.advice.substr(warning.advice.find("about ") + 6));
    EXPECT_EQ(Weights(dtype, false).warnings(4 * wanted, false), 0) << name_of(dtype) << " at " << wanted;
  }
}

TEST(Stagnation, OrdinaryTrainingAndStochasticRoundingAreNotReported) {
  EXPECT_EQ(Weights(DType::f32, false).warnings(1e-3, false), 0);
  EXPECT_EQ(Weights(DType::bf16, false).warnings(1e-2, false), 0);
  EXPECT_EQ(Weights(DType::bf16, true).warnings(1e-6, true), 0);
}

TEST(Stagnation, AScheduleThatEndsNearZeroIsNotReported) {
  Weights weights(DType::f32, false);
  Stagnation stagnation;
  EXPECT_FALSE(weights.step(stagnation, 50, 1e-3, false).has_value());
  for (std::int64_t k = 100; k <= 500; k += 50) EXPECT_FALSE(weights.step(stagnation, k, 1e-13, false).has_value());
  EXPECT_GT(stagnation.update_rms(), -1);
}

TEST(Stagnation, NonFiniteGradientsAreIgnoredAndARestoredStateContinues) {
  Weights weights(DType::f32, false);
  Stagnation first, second;
  EXPECT_FALSE(weights.step(first, 50, 1e-12, false).has_value());
  EXPECT_FALSE(weights.step(first, 100, 1e-12, false).has_value());
  second.load_state(first.state());
  EXPECT_TRUE(weights.step(second, 150, 1e-12, false).has_value());
  for (const Variable& v : {weights.weight, weights.bias}) v.state()->grad.fill(std::nan(""));
  second.before_update(weights.optimizer, {.lr = 1e-12});
  EXPECT_FALSE(second.after_update(200, 1e-12, false).has_value());
  EXPECT_EQ(second.update_rms(), 0);
  StateDict bad;
  bad.put("looks", StateDict::Integers{1});
  bad.put("told", StateDict::Integers{1});
  bad.put("largest_lr", 1.0);
  EXPECT_THROW(second.load_state(bad), CheckpointError);
}

}  // namespace
}  // namespace binade::amp
