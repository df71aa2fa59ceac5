#include "binade/amp/watch/telemetry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/runtime.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double least_forward(const Variable& x, DType dtype) {
  Telemetry telemetry;
  const ObserverScope watched(telemetry);
  const PolicyScope policy(PrecisionPolicy{}.with("*", dtype));
  step_context().next = {};
  (void)(x * 1.0);
  return telemetry.least(Direction::kForward).binades;
}

TEST(Telemetry, HeadroomIsTheNumberOfBinadesToTheEndOfTheRange) {
  const Runtime runtime({.threads = 1});
  EXPECT_DOUBLE_EQ(least_forward(Tensor::full({3}, 0x1p100), DType::f32), 28);
  EXPECT_NEAR(least_forward(Tensor::full({3}, 32760.0).to(DType::f16), DType::f16), 1, 1e-3);
  EXPECT_NEAR(least_forward(Tensor::full({3}, 0x1p120).to(DType::bf16), DType::bf16), 8, 3e-3);
  EXPECT_EQ(least_forward(Tensor::full({3}, kInfinity), DType::f32), -kInfinity);
  EXPECT_EQ(least_forward(Tensor::full({3}, std::nan("")), DType::f32), -kInfinity);
}

TEST(Telemetry, OnlyValuesThatRoundToInfinityHaveMinusInfiniteHeadroom) {
  for (const auto& [dtype, limit] : {std::pair{DType::f16, 65520.0}, {DType::bf16, 0x1.ffp127}}) {
    const float below = std::nextafter(static_cast<float>(limit), 0.0f);
    Observation seen{.low = std::bit_cast<std::uint32_t>(below)};
    EXPECT_TRUE(std::isfinite(Tensor::scalar(below).to(dtype).item()));
    EXPECT_GT(headroom_of(seen, dtype), 0);
    seen.low += 1;
    EXPECT_TRUE(std::isinf(Tensor::scalar(limit).to(dtype).item()));
    EXPECT_EQ(headroom_of(seen, dtype), -kInfinity);
  }
}

TEST(Telemetry, AMaskIsNoOverflowButAMaskedInfinityIs) {
  const Runtime runtime({.threads = 1});
  const auto least = [](float logit, float mask) {
    Telemetry telemetry;
    const ObserverScope watched(telemetry);
    step_context().next = {};
    const Variable logits(Tensor::from(std::vector<float>{logit, 3, 1, 2}, {2, 2}).to(DType::f16));
    const Variable masked = logits + Tensor::from(std::vector<float>{0, mask, 0, 0}, {2, 2}).to(DType::f16);
    (void)softmax(reshape(masked, {1, 2, 2}));
    return telemetry.least(Direction::kForward).binades;
  };
  const auto inf = std::numeric_limits<float>::infinity();
  EXPECT_GT(least(1, -inf), 15);  // headroom of the attention weights, the largest of which is 1
  EXPECT_EQ(least(inf, -inf), -kInfinity);
  EXPECT_EQ(least(-inf, -inf), -kInfinity);  // a fully masked row
  EXPECT_EQ(least(std::nanf(""), -inf), -kInfinity);
}

TEST(Telemetry, ANonFiniteAttemptDoesNotAffectTheNext) {
  const Runtime runtime({.threads = 1});
  Telemetry telemetry;
  const ObserverScope watched(telemetry);
  for (const double value : {kInfinity, std::nan(""), -kInfinity}) {
    telemetry.begin();
    step_context().next = {};
    (void)(Variable(Tensor::full({3}, value)) * 1.0);
    EXPECT_EQ(telemetry.least(Direction::kForward).binades, -kInfinity);
    telemetry.begin();
    step_context().next = {};
    (void)(Variable(Tensor::full({3}, 1.0)) * 1.0);
    EXPECT_DOUBLE_EQ(telemetry.least(Direction::kForward).binades, 128);
  }
}

TEST(Telemetry, EveryStepNamesTheOpNearestToOverflow) {
  toy::Training run({.precision = Policy::fp16()});
  run.net.up.mutable_value().fill(1);
  run.net.down.mutable_value().fill(100);
  const StepResult result = run.step(0);
  EXPECT_EQ(result.forward_headroom.op, std::string("linear"));
  EXPECT_GT(result.forward_headroom.binades, 0);
  EXPECT_LT(result.forward_headroom.binades, 10);
  EXPECT_LT(result.backward_headroom.binades, 16) << "gradients are multiplied by 65536";
}

/// A user's op uses none of Binade's kernels, so its results are scanned for their maximum.
TEST(Telemetry, AUsersOpIsObserved) {
  const Runtime runtime({.threads = 1});
  Telemetry telemetry;
  const ObserverScope watched(telemetry);
  step_context().next = {};
  const Variable x(Tensor::full({2, 2}, 0x1p90), true);
  const Variable y = apply_one<toy::Fragile>({}, {x});
  EXPECT_DOUBLE_EQ(telemetry.least(Direction::kForward).binades, 38);
  backward(y, Tensor::full({2, 2}, 0x1p101));
  EXPECT_DOUBLE_EQ(telemetry.least(Direction::kBackward).binades, 27);
  EXPECT_EQ(telemetry.least(Direction::kBackward).op, "fragile");
}

TEST(Telemetry, HeadroomIsReportedByModule) {
  const Runtime runtime({.threads = 1});
  toy::Two model;
  nn::assign_paths(model);
  model.second.weight.mutable_value().fill(0x1p40);
  Telemetry telemetry;
  const auto watch = [&](double x) {
    telemetry.begin();
    const ObserverScope watched(telemetry);
    step_context().next = {};
    const Variable y = model(Tensor::full({1, 4}, x));
    if (std::isfinite(x)) backward(y, Tensor::full({1, 2}, 1));
  };
  watch(1);
  const std::vector<ModuleHeadroom> modules = telemetry.by_module();
  ASSERT_EQ(modules.size(), 3u);
  EXPECT_EQ(modules[0].module, "first");
  EXPECT_EQ(modules[1].module, "") << "the relu between them";
  EXPECT_EQ(modules[2].module, "second");
  EXPECT_DOUBLE_EQ(modules[2].backward, 128 - 41) << "two columns of 2^40 add up";
  EXPECT_DOUBLE_EQ(std::min({modules[0].forward, modules[1].forward, modules[2].forward}),
                   telemetry.least(Direction::kForward).binades);

  watch(std::nan(""));
  EXPECT_EQ(telemetry.by_module()[0].forward, -kInfinity);
  EXPECT_EQ(telemetry.by_module()[0].backward, kInfinity) << "what the attempt before left is forgotten";
}

TEST(Telemetry, RecordsOfALongerTapeAreDropped) {
  const Runtime runtime({.threads = 1});
  const auto watch = [](Telemetry& telemetry, const Tensor& x, int ops) {
    telemetry.begin();
    const ObserverScope watched(telemetry);
    step_context().next = {};
    Variable y(x, true);
    for (int i = 0; i < ops; ++i) y = y * 2.0;
    backward(sum(y));
  };
  Telemetry used, fresh;
  watch(used, Tensor::full({2}, 1).to(DType::f16), 5);
  for (Telemetry* telemetry : {&used, &fresh}) watch(*telemetry, Tensor::full({2}, 1), 2);
  for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
    ASSERT_EQ(used.records(direction).size(), fresh.records(direction).size());
    for (std::size_t i = 0; i < fresh.records(direction).size(); ++i) {
      EXPECT_EQ(used.records(direction)[i].op, fresh.records(direction)[i].op);
      EXPECT_EQ(used.records(direction)[i].half_dtype, fresh.records(direction)[i].half_dtype);
    }
  }
}

}  // namespace
}  // namespace binade::amp
