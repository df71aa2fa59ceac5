#include "binade/amp/watch/singularity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/amp/watch/telemetry.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "binade/core/ops/unary.h"
#include "binade/core/runtime.h"
#include "binade/core/step_context.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Variable values(const std::vector<float>& x, DType dtype = DType::f32) {
  return Variable(Tensor::from(x, {static_cast<std::int64_t>(x.size())}).to(dtype));
}

/// Returns the distance from a singularity that telemetry measures for the first op that `run` calls.
template <class F>
std::optional<SingularityDistance> distance(F run) {
  const Runtime runtime({.threads = 1});
  Telemetry telemetry;
  telemetry.begin({.limits = true});
  const ObserverScope watched(telemetry);
  step_context().next = {};
  (void)run();
  return telemetry.records(Direction::kForward).front().singularity;
}

TEST(SingularityDistance, OfADivisionIsThatOfTheSmallestDivisor) {
  const auto of = [](const std::vector<float>& divisor, DType dtype) {
    return distance([&] { return values(std::vector<float>(divisor.size(), 1.0f), dtype) / values(divisor, dtype); });
  };
  EXPECT_NEAR(of({1, -0x1p-40f, 3}, DType::f32)->binades, std::log2(0x1p-40 / 1e-18), 1e-9);
  EXPECT_NEAR(of({1, 0x1p-10f, 3}, DType::f16)->binades, 4, 1e-9);
  EXPECT_EQ(of({1, 0x1p-10f}, DType::f16)->dtype, DType::f16);
  EXPECT_EQ(of({1, 0}, DType::f32)->binades, -kInfinity);
}

TEST(SingularityDistance, NanOperandsAreIgnored) {
  const auto of = [](const std::vector<float>& divisor) {
    return distance([&] { return values(std::vector<float>(divisor.size(), 1.0f)) / values(divisor); })->binades;
  };
  EXPECT_EQ(of({NAN, 0.5f, NAN}), of({1, 0.5f, 1}));
  EXPECT_EQ(of({NAN, INFINITY}), kInfinity);
}

TEST(SingularityDistance, IsMinusInfinityOutsideOfTheDomain) {
  EXPECT_EQ(distance([] { return log(values({1, -1})); })->binades, -kInfinity);
  EXPECT_EQ(distance([] { return sqrt(values({4, -1})); })->binades, -kInfinity);
  EXPECT_GT(distance([] { return log(values({1, 0.1f})); })->binades, 50);
}

TEST(SingularityDistance, OfABceCountsBothEndsOfProbabilitiesAndNoTargets) {
  const auto of = [](float p, float target) {
    return distance([&] { return bce(values({0.5f, p}), values({0.0f, target})); })->binades;
  };
  EXPECT_NEAR(of(0x1p-30f, 0), std::log2(0x1p-30 / 1e-18), 1e-9);
  EXPECT_NEAR(of(1 - 0x1p-20f, 0), std::log2(0x1p-20 / 1e-18), 1e-6);
  EXPECT_EQ(of(1, 1), -kInfinity);
}

TEST(SingularityDistance, IsUndefinedWithoutASingularityAndMinusInfinityForDivisionByZero) {
  EXPECT_FALSE(distance([] { return values({1, 2}) * values({0, 0}); }));
  for (const double divisor : {0.0, 1e-30}) {
    const ops::DivScalar::Params params{divisor};
    const OpCall call{.info = ops::DivScalar::info, .params = &params};
    EXPECT_EQ(singularity_distance(call, {}).binades, divisor == 0 ? -kInfinity : kInfinity);
  }
}

}  // namespace
}  // namespace binade::amp
