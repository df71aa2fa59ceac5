#include "amp/signs/spike_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"

namespace binade::amp {
namespace {

double noise(int step) {
  const RandomStream stream{4, RngPurpose::kData, static_cast<std::uint64_t>(step), 0, 0};
  return 2 * stream.uniform(0) - 1;
}

SpikeGuard after(int steps, double level, double spread) {
  SpikeGuard guard;
  for (int k = 0; k < steps; ++k) guard.accepted(level + spread * noise(k));
  return guard;
}

TEST(SpikeGuard, AConvergedLossThatTriplesIsAbsurdAndItsNoiseIsNot) {
  for (const auto& [level, spread] : {std::pair(1.04, 0.05), {0.3, 0.02}, {0.05, 0.005}, {1e-6, 1e-7}, {-2.0, 0.1}}) {
    const SpikeGuard guard = after(300, level, spread);
    EXPECT_TRUE(guard.absurd(level + 2 * std::abs(level))) << level;
    EXPECT_FALSE(guard.absurd(level + 4 * spread)) << level;
    EXPECT_FALSE(guard.absurd(level - 10 * std::abs(level))) << "a smaller loss is good news";
  }
}

TEST(SpikeGuard, ABatchAsBadAsAnUntrainedNetworkIsNoiseWhereLossesAreSmallAndScattered) {
  SpikeGuard guard;
  guard.accepted(1.4);  // as it began
  for (int k = 0; k < 300; ++k) guard.accepted(0.08 * std::exp(0.6 * noise(k)));
  EXPECT_FALSE(guard.absurd(1.2)) << "a picture without a single cell";
  EXPECT_TRUE(guard.absurd(4.0));
  SpikeGuard quiet;
  quiet.accepted(5.5);
  for (int k = 0; k < 300; ++k) quiet.accepted(1.04 * std::exp(0.06 * noise(k)));
  EXPECT_TRUE(quiet.absurd(3.1)) << "a quiet loss has no such tail";
}

TEST(SpikeGuard, NothingIsJudgedBeforeEnoughWasSeen) {
  const SpikeGuard guard = after(31, 1, 0.1);
  EXPECT_FALSE(guard.absurd(1e30));
  EXPECT_TRUE(after(32, 1, 0.1).absurd(1e30));
}

TEST(SpikeGuard, WildLossesThatWereAcceptedDoNotWidenTheBound) {
  SpikeGuard guard = after(300, 1, 0.05);
  for (int k = 0; k < 30; ++k) guard.accepted(40);
  EXPECT_TRUE(guard.absurd(40));
}

TEST(SpikeGuard, WhatIsNotFiniteIsNeitherAbsurdNorRemembered) {
  SpikeGuard guard = after(300, 1, 0.05), other = guard;
  for (const double bad :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(guard.absurd(bad));
    for (int k = 0; k < 200; ++k) guard.accepted(bad);
    EXPECT_EQ(guard.bound(), other.bound());
  }
  EXPECT_TRUE(guard.absurd(3));
}

TEST(SpikeGuard, ALossThatFallsSteeplyOrRestsAtZeroIsFine) {
  SpikeGuard guard;
  for (int k = 0; k < 1000; ++k) {
    const double loss = 0.02 + 5 * std::exp(-k / 100.0) * (1 + 0.2 * noise(k));
    EXPECT_FALSE(guard.absurd(loss)) << k;
    guard.accepted(loss);
  }
  SpikeGuard zero;
  for (int k = 0; k < 100; ++k) zero.accepted(0);
  EXPECT_FALSE(zero.absurd(0));
}

TEST(SpikeGuard, ARestoredStateJudgesTheSame) {
  const SpikeGuard guard = after(77, 2, 0.3);
  SpikeGuard restored;
  restored.load_state(guard.state());
  EXPECT_EQ(restored.bound(), guard.bound());
  restored.load_state({});
  EXPECT_FALSE(restored.absurd(1e9));
  StateDict bad;
  bad.put("losses", StateDict::Numbers{1, std::nan("")});
  bad.put("largest", 1.0);
  EXPECT_THROW(restored.load_state(bad), CheckpointError);
  EXPECT_THROW(SpikeGuard({.window = 8, .least = 9}), ArgumentError);
}

}  // namespace
}  // namespace binade::amp
