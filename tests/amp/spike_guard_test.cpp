#include "binade/amp/warnings/spike_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/core/error.h"
#include "binade/core/random.h"

namespace binade::amp {
namespace {

double noise(int step) {
  const RandomStream stream{4, RngPurpose::kData, static_cast<std::uint64_t>(step), 0, 0};
  return 2 * stream.uniform(0) - 1;
}

/// Gradient norms that scatter slightly around 1; a norm of 100 is an outlier.
double norm(int step) { return std::exp(0.3 * noise(5000 + step)); }
constexpr double kFarOut = 100;

SpikeGuard after(int steps, double level, double spread) {
  SpikeGuard guard;
  for (int k = 0; k < steps; ++k) guard.add(level + spread * noise(k), norm(k));
  return guard;
}

TEST(SpikeGuard, AConvergedLossThatTriplesIsAbsurdAndItsNoiseIsNot) {
  for (const auto& [level, spread] : {std::pair(1.04, 0.05), {0.3, 0.02}, {0.05, 0.005}, {1e-6, 1e-7}, {-2.0, 0.1}}) {
    const SpikeGuard guard = after(300, level, spread);
    EXPECT_TRUE(guard.is_spike(level + 2 * std::abs(level), kFarOut)) << level;
    EXPECT_FALSE(guard.is_spike(level + 4 * spread, kFarOut)) << level;
    EXPECT_FALSE(guard.is_spike(level - 10 * std::abs(level), kFarOut)) << "a smaller loss is good news";
  }
}

TEST(SpikeGuard, ALossNoLargerThanTheFirstIsNotAbsurdIfLossesScatterWidely) {
  SpikeGuard guard;
  guard.add(1.4, 1);  // the first loss of the run
  for (int k = 0; k < 300; ++k) guard.add(0.08 * std::exp(0.6 * noise(k)), norm(k));
  EXPECT_FALSE(guard.is_spike(1.2, kFarOut)) << "a picture without a single cell";
  EXPECT_TRUE(guard.is_spike(4.0, kFarOut));
  SpikeGuard quiet;
  quiet.add(5.5, 1);
  for (int k = 0; k < 300; ++k) quiet.add(1.04 * std::exp(0.06 * noise(k)), norm(k));
  EXPECT_TRUE(quiet.is_spike(3.1, kFarOut)) << "a quiet loss has no such tail";
}

TEST(SpikeGuard, NoLossIsAbsurdBeforeTheWindowHasEnoughLosses) {
  const SpikeGuard guard = after(31, 1, 0.1);
  EXPECT_FALSE(guard.is_spike(1e30, kFarOut));
  EXPECT_TRUE(after(32, 1, 0.1).is_spike(1e30, kFarOut));
}

TEST(SpikeGuard, AcceptedOutliersDoNotWidenTheBound) {
  SpikeGuard guard = after(300, 1, 0.05);
  for (int k = 0; k < 30; ++k) guard.add(40, kFarOut);
  EXPECT_TRUE(guard.is_spike(40, kFarOut));
}

TEST(SpikeGuard, NonFiniteLossesAreNeitherAbsurdNorAddedToTheWindow) {
  SpikeGuard guard = after(300, 1, 0.05), other = guard;
  for (const double bad :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(guard.is_spike(bad, kFarOut));
    for (int k = 0; k < 200; ++k) guard.add(bad, norm(k)), guard.add(1, std::abs(bad));
    EXPECT_EQ(guard.bound(), other.bound());
  }
  EXPECT_TRUE(guard.is_spike(3, kFarOut));
}

TEST(SpikeGuard, ALossThatFallsSteeplyOrStaysAtZeroIsNotAbsurd) {
  SpikeGuard guard;
  for (int k = 0; k < 1000; ++k) {
    const double loss = 0.02 + 5 * std::exp(-k / 100.0) * (1 + 0.2 * noise(k));
    EXPECT_FALSE(guard.is_spike(loss, kFarOut)) << k;
    guard.add(loss, norm(k));
  }
  SpikeGuard zero;
  for (int k = 0; k < 100; ++k) zero.add(0, norm(k));
  EXPECT_FALSE(zero.is_spike(0, kFarOut));
}

TEST(SpikeGuard, NoLossIsAbsurdIfMedianOrSpreadAreMeaningless) {
  SpikeGuard triplets, same, of_both_signs;
  for (int k = 0; k < 300; ++k) {
    triplets.add(std::max(0.0, 0.2 * noise(k)), norm(k));  // every second batch has a loss of 0
    same.add(0.5, norm(k));
    of_both_signs.add(0.1 + noise(k), norm(k));
  }
  for (const double loss : {0.1, 5.0, 1e6}) {
    EXPECT_FALSE(triplets.is_spike(loss, kFarOut)) << loss;
    EXPECT_FALSE(same.is_spike(loss, kFarOut)) << loss;
    EXPECT_FALSE(of_both_signs.is_spike(loss, kFarOut)) << loss;
  }
}

TEST(SpikeGuard, ALossWithAUsualGradientNormIsNoSpike) {
  const SpikeGuard guard = after(300, 1, 0.05);
  for (const double usual : {0.6, 1.0, 1.9}) EXPECT_FALSE(guard.is_spike(50, usual)) << "a norm like those before";
  EXPECT_TRUE(guard.is_spike(50, 20));
  EXPECT_TRUE(guard.is_spike(50, 1e-6)) << "a network that is dead";
  EXPECT_TRUE(guard.is_spike(50, 0));
  EXPECT_FALSE(guard.is_spike(1.1, 1e6)) << "nor is a norm alone";
}

TEST(SpikeGuard, ALossIsUsualOnlyIfTheLatestLossesAreUsual) {
  SpikeGuard guard = after(300, 1, 0.1);
  EXPECT_TRUE(guard.is_usual(1.05));
  EXPECT_FALSE(guard.is_usual(1.2));
  EXPECT_FALSE(guard.is_usual(std::nan("")));
  guard.add(1.5, 1);
  EXPECT_TRUE(guard.is_usual(1.05)) << "one alone shows nothing";
  for (int k = 0; k < 4; ++k) guard.add(1.5, 1);
  EXPECT_FALSE(guard.is_usual(1.05)) << "the data has changed";
  EXPECT_FALSE(after(20, 1, 0.1).is_usual(1)) << "too few losses";
}

TEST(SpikeGuard, ARestoredStateJudgesTheSame) {
  const SpikeGuard guard = after(77, 2, 0.3);
  SpikeGuard restored;
  restored.load_state(guard.state());
  EXPECT_EQ(restored.bound(), guard.bound());
  EXPECT_TRUE(restored.is_spike(100, kFarOut));
  StateDict of_an_earlier_version;
  of_an_earlier_version.put("losses", StateDict::Numbers(100, 1.0));
  of_an_earlier_version.put("largest", 1.0);
  restored.load_state(of_an_earlier_version);
  EXPECT_FALSE(restored.is_spike(1e9, kFarOut)) << "without norms it starts over";
  restored.load_state({});
  EXPECT_FALSE(restored.is_spike(1e9, kFarOut));
  StateDict bad;
  bad.put("losses", StateDict::Numbers{1, std::nan("")});
  bad.put("norms", StateDict::Numbers{1, 1});
  bad.put("largest", 1.0);
  EXPECT_THROW(restored.load_state(bad), CheckpointError);
  EXPECT_THROW(SpikeGuard({.window = 8, .min_losses = 9}), ArgumentError);
}

}  // namespace
}  // namespace binade::amp
