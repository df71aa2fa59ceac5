#include "binade/amp/warnings/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/doctor/report/sections.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

/// Noise with mean 0 and standard deviation 1, a function of the step.
double noise(std::int64_t step, std::uint64_t seed = 6) {
  const RandomStream stream{seed, RngPurpose::kData, static_cast<std::uint64_t>(step), 0, 0};
  return std::sqrt(-2 * std::log(1 - stream.uniform(0))) * std::cos(6.283185307179586 * stream.uniform(1));
}

std::vector<std::int64_t> reported_steps(const std::vector<double>& losses) {
  Divergence divergence;
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (divergence.observe(losses[i])) steps.push_back(static_cast<std::int64_t>(i) + 1);
  return steps;
}
std::vector<std::int64_t> reported_steps(const std::function<double(std::int64_t)>& loss, std::int64_t steps) {
  std::vector<double> losses;
  for (std::int64_t step = 1; step <= steps; ++step) losses.push_back(loss(step));
  return reported_steps(losses);
}

TEST(Divergence, ALossFarAboveTheFirstIsReportedOnceFromTheSixthStepOn) {
  EXPECT_EQ(reported_steps({5.6, 1103, 900, 1200, 700, 650, 800, 900}), (std::vector<std::int64_t>{6}));
  EXPECT_EQ(reported_steps({5.6, 8, 40, 300, 1103, 1500, 1400, 1350, 1300, 1290, 1280}),
            (std::vector<std::int64_t>{8}));
  EXPECT_EQ(reported_steps([](std::int64_t s) { return 2 * std::exp(static_cast<double>(s)); }, 40).size(), 1u)
      << "exponential";
  EXPECT_EQ(reported_steps([](std::int64_t s) { return s < 300 ? 1 + 0.1 * noise(s) : 30 + noise(s); }, 400),
            (std::vector<std::int64_t>{304}));
  const auto twice = [](std::int64_t s) { return s / 100 % 2 == 1 ? 50.0 : 1.0; };
  EXPECT_EQ(reported_steps(twice, 400).size(), 2u) << "it had come back";
}

TEST(Divergence, NoiseIsNotReported) {
  EXPECT_TRUE(reported_steps([](std::int64_t s) { return 5 / (1 + 0.01 * static_cast<double>(s)); }, 1000).empty());
  EXPECT_TRUE(
      reported_steps([](std::int64_t s) { return 0.7 + 0.004 * static_cast<double>(std::min<std::int64_t>(s, 1000)); },
                     2000)
          .empty())
      << "a generator's loss grows to seven times its start";
  int runs = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto one_sample = [&](std::int64_t s) { return std::pow(noise(s, 100 + seed), 2); };
    runs += reported_steps(one_sample, 500).empty() ? 0 : 1;
    EXPECT_TRUE(reported_steps([&](std::int64_t s) { return noise(s, 300 + seed); }, 500).empty()) << "both signs";
  }
  EXPECT_LE(runs, 10) << "of 200 with squares of single samples, which scatter over six decades: 1 in 10,000 steps";
}

TEST(Divergence, LossesThatAreNotPositiveAndFiniteAreIgnored) {
  EXPECT_TRUE(reported_steps({0, 5, 5, 5, 5, 5, 5, 5}).empty());
  EXPECT_TRUE(reported_steps({-1, 5, 5, 5, 5, 5, 5, 5}).empty());
  EXPECT_TRUE(reported_steps({0.1, 5, -5, 5, 5, 5, 5, 5, 5, 5}).empty());
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(reported_steps({nan, 5.6, inf, 1103, nan, 900, 1200, 700, -inf, 650}), (std::vector<std::int64_t>{10}));
}

TEST(Divergence, AResumedRunReportsTheSame) {
  Divergence whole;
  for (const double loss : {1.0, 20.0, 21.0, 22.0}) EXPECT_FALSE(whole.observe(loss));
  Divergence resumed;
  resumed.load_state(whole.state());
  EXPECT_FALSE(resumed.observe(20));
  EXPECT_TRUE(resumed.observe(20));
  EXPECT_FALSE(resumed.observe(20)) << "once";
  StateDict bad;
  bad.put("losses", StateDict::Numbers{1, -2});
  bad.put("told", std::int64_t{0});
  bad.put("signed", std::int64_t{0});
  EXPECT_THROW(resumed.load_state(bad), CheckpointError);
}

/// The learning rate is far too large for f32 masters and bf16 alike, and every number stays finite.
TEST(Divergence, ADivergingRunWithoutANanIsReported) {
  toy::Training run({.precision = Policy::bf16()}, 1, 30);
  std::vector<Warning> warnings;
  for (std::uint32_t k = 0; k < 30; ++k) {
    const StepResult result = run.step(k);
    EXPECT_TRUE(result.committed);
    EXPECT_FALSE(result.incident.has_value());
    warnings.insert(warnings.end(), result.warnings.begin(), result.warnings.end());
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].kind, WarningKind::kDivergence);
  EXPECT_EQ(location_of(warnings[0]), "the whole model");
  EXPECT_LE(warnings[0].step, 8);
  EXPECT_NE(warnings[0].advice.find("learning rate"), std::string::npos);
}

TEST(Divergence, TheHtmlReportNotesALossThatEndedAboveItsStart) {
  using namespace doctor::report;
  const auto findings = [](const std::vector<double>& losses) {
    RunHistory history;
    for (const double loss : losses)
      history.committed.push_back({.step = std::ssize(history.committed) + 1, .committed = true, .loss = loss});
    history.checkpoints.entries.resize(1);
    return findings_section(history).html();
  };
  EXPECT_NE(findings({5.6, 8, 40, 300, 1103}).find("The loss ended higher than it began"), std::string::npos);
  EXPECT_NE(findings({5.6, 40, 7, 1103}).find("Nothing stands out"), std::string::npos) << "7 was a step before";
  EXPECT_NE(findings({5.6, 1103}).find("1103"), std::string::npos);
  for (const std::vector<double>& fine : {std::vector<double>{}, {5}, {5, 4, 3}, {-1, 4, 5}, {0, 4}, {2, 2.5, 2.9}})
    EXPECT_EQ(findings(fine).find("ended higher"), std::string::npos);
}

}  // namespace
}  // namespace binade::amp
