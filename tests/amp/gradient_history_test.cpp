#include "binade/amp/warnings/gradient_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "binade/core/random.h"

namespace binade::amp {
namespace {

/// Noise with mean 0 and standard deviation 1, a function of the step.
double noise(std::int64_t step) {
  const RandomStream stream{5, RngPurpose::kData, static_cast<std::uint64_t>(step), 0, 0};
  return std::sqrt(-2 * std::log(1 - stream.uniform(0))) * std::cos(6.283185307179586 * stream.uniform(1));
}

using Series = std::function<double(std::int64_t step)>;

std::vector<std::int64_t> told(GradientHistory& history, const Series& norm, std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = from; step <= to; ++step)
    if (history.observe(norm(step))) steps.push_back(step);
  return steps;
}
std::vector<std::int64_t> told(const Series& norm, std::int64_t to = 1000) {
  GradientHistory history;
  return told(history, norm, 1, to);
}

double healthy(std::int64_t step) { return 0.5 * std::exp2(0.5 * noise(step)); }

TEST(GradientHistory, NoiseAndSlowChangeAreNotReported) {
  EXPECT_TRUE(told(healthy, 20000).empty());
  EXPECT_TRUE(told([](std::int64_t s) { return healthy(s) * std::exp2(static_cast<double>(s) / 50); }).empty())
      << "doubles every 50 steps";
  EXPECT_TRUE(told([](std::int64_t s) { return healthy(s) * (s < 20 ? 1000 : 1); }).empty()) << "the first steps";
  EXPECT_TRUE(told([](std::int64_t s) { return std::exp2(6 * noise(s)); }, 5000).empty()) << "wild, and always was";
}

TEST(GradientHistory, NormsThatStayHighAreReportedOnceAfterEightSteps) {
  const std::vector<std::int64_t> steps = told(
      [](std::int64_t s) { return healthy(s) * (s >= 400 ? std::exp2(6.0) : 1); });
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0], 407);
}

TEST(GradientHistory, OneExtremeNormIsReportedAtOnce) {
  GradientHistory history;
  for (std::int64_t step = 1; step < 400; ++step) EXPECT_FALSE(history.observe(healthy(step)));
  const auto growth = history.observe(1000);
  ASSERT_TRUE(growth);
  EXPECT_FALSE(growth->lasts);
  EXPECT_NEAR(growth->median, 0.5, 0.05);
  EXPECT_NEAR(growth->binades, std::log2(1000 / growth->median), 1e-9);
}

/// A program that clips has named the norms up to its bound as normal: a converged model has small gradients, and a
/// harder batch then has larger ones.
TEST(GradientHistory, NormsThatClippingKeepsAreNotReported) {
  GradientHistory clipped, without;
  for (std::int64_t step = 1; step < 400; ++step) {
    clipped.observe(0.001 * healthy(step), 1);
    without.observe(0.001 * healthy(step));
  }
  EXPECT_FALSE(clipped.observe(0.9, 1));
  EXPECT_TRUE(without.observe(0.9));
  EXPECT_TRUE(clipped.observe(1.1, 1));
}

TEST(GradientHistory, ASingleHighNormIsNotReported) {
  EXPECT_TRUE(told([](std::int64_t s) { return healthy(s) * (s % 100 == 0 ? 40 : 1); }).empty());
}

TEST(GradientHistory, IsReportedAgainAfterNormsWereUsualAgain) {
  const std::vector<std::int64_t> steps = told([](std::int64_t s) { return 0.5 * (s == 300 || s == 500 ? 1e4 : 1); });
  EXPECT_EQ(steps, (std::vector<std::int64_t>{300, 500}));
}

TEST(GradientHistory, ZeroAndNonFiniteNormsAreIgnored) {
  const double kNone[] = {std::nan(""), std::numeric_limits<double>::infinity(), 0.0};
  const Series jump = [](std::int64_t s) { return healthy(s) * (s >= 400 ? std::exp2(6.0) : 1); };
  GradientHistory clean, planted;
  std::vector<std::int64_t> a, b;
  for (std::int64_t step = 1; step <= 600; ++step) {
    EXPECT_FALSE(planted.observe(kNone[step % 3])) << step;
    if (clean.observe(jump(step))) a.push_back(step);
    if (planted.observe(jump(step))) b.push_back(step);
  }
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.size(), 1u);
}

TEST(GradientHistory, ARestoredStateContinues) {
  const Series jump = [](std::int64_t s) { return healthy(s) * (s >= 400 ? std::exp2(6.0) : 1); };
  for (const std::int64_t cut : {100, 403, 407, 450}) {
    GradientHistory first, second;
    std::vector<std::int64_t> steps = told(first, jump, 1, cut);
    second.load_state(first.state());
    for (const std::int64_t step : told(second, jump, cut + 1, 600)) steps.push_back(step);
    EXPECT_EQ(steps, std::vector<std::int64_t>{407}) << "cut after step " << cut;
  }
}

}  // namespace
}  // namespace binade::amp
