#include "binade/amp/warnings/forecast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "binade/amp/warnings/trend.h"
#include "binade/core/error.h"
#include "binade/core/random.h"

namespace binade::amp {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Noise in [-1, 1], a function of the step.
double noise(std::int64_t step) {
  const RandomStream stream{3, RngPurpose::kData, static_cast<std::uint64_t>(step), 0, 0};
  return 2 * stream.uniform(0) - 1;
}

using Series = std::function<double(std::int64_t step)>;

/// Returns the alarms about the series of one op, with their steps.
std::vector<std::pair<std::int64_t, Forecast::Alarm>> alarms_of(Forecast& forecast, const Series& headroom,
                                                                std::int64_t from, std::int64_t to) {
  std::vector<std::pair<std::int64_t, Forecast::Alarm>> alarms;
  for (std::int64_t step = from; step <= to; ++step) {
    if (!forecast.due(step)) continue;
    const HeadroomReading reading{"blocks.0.attention", "matmul", DType::f16, headroom(step)};
    for (const Forecast::Alarm& alarm : forecast.observe(step, {&reading, 1})) alarms.emplace_back(step, alarm);
  }
  return alarms;
}
std::vector<std::pair<std::int64_t, Forecast::Alarm>> alarms_of(const Series& headroom, std::int64_t to = 3000) {
  Forecast forecast;
  return alarms_of(forecast, headroom, 1, to);
}

TEST(Trend, OutliersDoNotChangeIt) {
  std::vector<Sample> samples;
  for (int i = 0; i < 32; ++i) samples.push_back({4.0 * i, 10 - 0.25 * i + (i % 7 == 3 ? 50 : 0)});
  const Trend trend = trend_of(samples).value();
  EXPECT_NEAR(trend.slope, -0.0625, 1e-3);
  EXPECT_NEAR(trend.level, 10 - 0.25 * 31, 0.1);
  EXPECT_NEAR(trend.first_half, -0.0625, 1e-2);
  EXPECT_NEAR(trend.second_half, -0.0625, 1e-2);
}

TEST(Trend, SlopeErrorMatchesTheSpreadOfSlopesUnderNormalNoise) {
  std::vector<Sample> samples;
  double slopes = 0, squares = 0, errors = 0;
  for (int run = 0; run < 400; ++run) {
    samples.clear();
    for (int i = 0; i < 32; ++i) samples.push_back({4.0 * i, noise(1000 * run + i) + noise(500000 + 1000 * run + i)});
    const Trend trend = trend_of(samples).value();
    slopes += trend.slope;
    squares += trend.slope * trend.slope;
    errors += trend.slope_error / 400;
  }
  EXPECT_NEAR(errors / std::sqrt(squares / 400 - slopes * slopes / 160000), 1, 0.25);
}

TEST(Trend, NeedsEnoughSamples) { EXPECT_FALSE(trend_of(std::vector<Sample>(15)).has_value()); }

TEST(Forecast, GrowthOfOnePercentPerStepIsReportedAtLeast50StepsAhead) {
  for (const double growth : {1.005, 1.01, 1.02}) {
    const double per_step = 2 * std::log2(growth);  // the logits are products of two growing factors
    const Series headroom = [&](std::int64_t step) {
      return 12 - per_step * static_cast<double>(step) + 0.1 * noise(step);
    };
    const auto alarms = alarms_of(headroom, static_cast<std::int64_t>(12 / per_step));
    ASSERT_EQ(alarms.size(), 1u) << growth << ": once";
    const auto& [step, alarm] = alarms.front();
    const double ahead = 12 / per_step - static_cast<double>(step);
    EXPECT_GE(ahead, 50) << growth;
    EXPECT_NEAR(alarm.steps, ahead, 0.25 * ahead + 4) << growth;
    EXPECT_GE(alarm.confidence, 0.9);
  }
}

TEST(Forecast, OrdinarySeriesRaiseNoAlarm) {
  const std::vector<std::pair<const char*, Series>> clean = {
      {"noise around a level", [](auto k) { return 3 + 0.5 * noise(k); }},
      {"slow noise", [](auto k) { return 5 + 1.5 * std::sin(static_cast<double>(k) / 90) + 0.2 * noise(k); }},
      {"a start that finds its scale",
       [](auto k) { return 14 - 6 * (1 - std::exp(-static_cast<double>(k) / 60)) + 0.2 * noise(k); }},
      {"growth by an amount, not by a share",
       [](auto k) { return 13 - std::log2(1 + static_cast<double>(k) / 20) + 0.2 * noise(k); }},
      {"a warm-up that ends",
       [](auto k) { return 10 - 4 * std::min(static_cast<double>(k) / 100, 1.0) + 0.2 * noise(k); }},
      {"a learning rate that jumps", [](auto k) { return (k < 500 ? 9 : 4) + 0.3 * noise(k); }},
      {"a fall with much room left", [](auto k) { return 60 - 0.05 * static_cast<double>(k % 900) + 0.2 * noise(k); }},
      {"recovery", [](auto k) { return 2 + 0.003 * static_cast<double>(k) + 0.2 * noise(k); }},
  };
  for (const auto& [name, series] : clean) EXPECT_TRUE(alarms_of(series).empty()) << name;
}

TEST(Forecast, NonFiniteSamplesAreIgnored) {
  const Series plain = [](std::int64_t step) { return 8 - 0.03 * static_cast<double>(step) + 0.1 * noise(step); };
  const auto expected = alarms_of(plain, 260);
  ASSERT_EQ(expected.size(), 1u);
  for (const double planted : {kNan, kInfinity, -kInfinity})
    for (std::int64_t at = 4; at < expected.front().first; at += 4) {
      const auto alarms = alarms_of([&](std::int64_t step) { return step == at ? planted : plain(step); }, 260);
      ASSERT_EQ(alarms.size(), 1u) << planted << " at " << at;
      EXPECT_NEAR(static_cast<double>(alarms.front().first), static_cast<double>(expected.front().first), 8)
          << planted << " at " << at;
      EXPECT_TRUE(std::isfinite(alarms.front().second.steps));
    }
}

TEST(Forecast, AnAlarmIsRepeatedAfterTheHeadroomRecovered) {
  Forecast forecast;
  const Series sawtooth = [](std::int64_t step) {
    return 8 - 0.03 * static_cast<double>(step % 220) + 0.05 * noise(step);
  };
  EXPECT_EQ(alarms_of(forecast, sawtooth, 1, 659).size(), 3u);
}

TEST(Forecast, AnotherOpInTheSameModuleStartsOver) {
  Forecast forecast;
  const Series falling = [](std::int64_t step) { return 8 - 0.03 * static_cast<double>(step); };
  EXPECT_TRUE(alarms_of(forecast, falling, 1, 76).empty());
  const HeadroomReading other{"blocks.0.attention", "softmax", DType::f16, 5.5};
  EXPECT_TRUE(forecast.observe(80, {&other, 1}).empty());
  EXPECT_TRUE(alarms_of(forecast, falling, 81, 140).empty()) << "its series began at step 84";
}

TEST(Forecast, ARestoredStateGivesTheSameAlarms) {
  const Series headroom = [](std::int64_t step) {
    return step % 52 == 0 ? kNan : 9 - 0.03 * static_cast<double>(step) + 0.1 * noise(step);
  };
  const auto whole = alarms_of(headroom, 290);
  ASSERT_EQ(whole.size(), 1u);
  for (std::int64_t cut = 2; cut < 290; cut += 9) {
    Forecast first, second;
    auto alarms = alarms_of(first, headroom, 1, cut);
    second.load_state(first.state());
    EXPECT_EQ(second.state().numbers("samples"), first.state().numbers("samples"));
    for (const auto& alarm : alarms_of(second, headroom, cut + 1, 290)) alarms.push_back(alarm);
    ASSERT_EQ(alarms.size(), 1u) << cut;
    EXPECT_EQ(alarms.front().first, whole.front().first);
    EXPECT_EQ(alarms.front().second.confidence, whole.front().second.confidence);
  }
  Forecast forecast;
  (void)alarms_of(forecast, headroom, 1, 100);
  forecast.load_state({});
  EXPECT_EQ(forecast.state().integer("count"), 0);
}

TEST(Forecast, AnInconsistentStateIsRefused) {
  StateDict state;
  state.put("count", std::int64_t{3});
  state.put("steps", StateDict::Integers(Forecast::kWindow, 0));
  state.put("places", std::string("a\nlinear\n"));
  state.put("dtypes", StateDict::Integers{1, 1});
  state.put("alarmed", StateDict::Numbers{-1, -1});
  state.put("samples", StateDict::Numbers(2 * Forecast::kWindow, 1.0));
  Forecast forecast;
  EXPECT_THROW(forecast.load_state(state), CheckpointError);
  EXPECT_THROW(Forecast({.confidence = 2}), ArgumentError);
}

}  // namespace
}  // namespace binade::amp
