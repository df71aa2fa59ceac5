#include "binade/run/save_times.h"

#include <gtest/gtest.h>

#include <vector>

namespace binade::amp {
namespace {

/// The times at which a run saves by the clock, if it makes one step per second for the given time.
std::vector<int> saves(SaveTimes& times, int seconds) {
  std::vector<int> at;
  for (int now = 1; now <= seconds; ++now)
    if (times.due_by_clock(now)) {
      at.push_back(now);
      times.save_started(now);
      times.save_committed();
    }
  return at;
}

TEST(SaveTimes, TheFirstSaveFollowsTheFirstStepAndPausesDoubleUpToALimit) {
  SaveTimes times({.seconds = 100}, 0);
  EXPECT_EQ(saves(times, 400), (std::vector<int>{1, 16, 46, 106, 206, 306}));
}

TEST(SaveTimes, ALimitBelowTheFirstPauseAppliesFromTheBeginning) {
  SaveTimes times({.seconds = 6}, 0);
  EXPECT_EQ(saves(times, 20), (std::vector<int>{1, 7, 13, 19}));
}

TEST(SaveTimes, AResumedRunWaitsBeforeItsFirstSave) {
  SaveTimes times({.seconds = 600, .saved_before = true}, 100);
  EXPECT_FALSE(times.due_by_clock(114));
  EXPECT_TRUE(times.due_by_clock(115));
}

TEST(SaveTimes, ASaveByStepCountRestartsThePause) {
  SaveTimes times({.every_steps = 10, .seconds = 15}, 0);
  times.save_started(5);
  EXPECT_FALSE(times.due_by_clock(19));
  EXPECT_TRUE(times.due_by_clock(20));
  EXPECT_TRUE(times.due_at_step(20));
  EXPECT_FALSE(times.due_at_step(21));
}

TEST(SaveTimes, SavesByTimeCanBeDisabled) {
  SaveTimes times({.every_steps = 10}, 0);
  EXPECT_FALSE(times.due_by_clock(1e9));
  times.save_started(0);
  EXPECT_FALSE(times.due_by_clock(1e9));
  SaveTimes never({}, 0);
  EXPECT_FALSE(never.due_at_step(0));
}

TEST(SaveTimes, AFailedSaveIsTriedAgainAtIncreasingIntervals) {
  SaveTimes times({.every_steps = 10}, 0);
  std::vector<int> at;
  times.save_started(0);
  times.save_failed(0);
  for (int now = 1; now <= 100; ++now)
    if (times.due_by_clock(now)) {
      at.push_back(now);
      times.save_started(now);
      times.save_failed(now);
    }
  EXPECT_EQ(at, (std::vector<int>{10, 30, 70}));
  times.save_started(200);
  times.save_committed();
  EXPECT_FALSE(times.due_by_clock(1e9));
}

}  // namespace
}  // namespace binade::amp
