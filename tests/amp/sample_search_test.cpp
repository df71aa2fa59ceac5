#include "binade/amp/incident/sample_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

// SampleSearch must name the bad rows of a simulated step, which fails if its batch contains a bad row.
namespace binade::amp {
namespace {

using Rows = SampleSearch::Rows;

struct Found {
  Rows rows;
  int replays = 0;
};

Found search(std::int64_t count, const Rows& bad, const std::vector<Rows>& suspects = {}, int most = 11,
             bool is_state_bad = false) {
  Rows all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  Found found;
  SampleSearch search(all, [&](const Rows& without) -> std::optional<bool> {
    if (found.replays == most) return {};
    ++found.replays;
    return !is_state_bad &&
           std::ranges::all_of(bad, [&](std::int64_t row) { return std::ranges::find(without, row) != without.end(); });
  });
  found.rows = search.find(suspects);
  return found;
}

TEST(SampleSearch, FindsOneRowByBisection) {
  for (std::int64_t row = 0; row < 16; ++row) {
    const Found found = search(16, {row});
    EXPECT_EQ(found.rows, Rows{row});
    EXPECT_LE(found.replays, 8) << row;
  }
}

TEST(SampleSearch, ACorrectSuspectCostsOneReplay) {
  const Found found = search(16, {5}, {{5}});
  EXPECT_EQ(found.rows, Rows{5});
  EXPECT_EQ(found.replays, 1);
}

TEST(SampleSearch, WrongSuspectsAreNotNamed) { EXPECT_EQ(search(8, {5}, {{2}, {1, 3}}).rows, Rows{5}); }

TEST(SampleSearch, OnlyTheBadRowsOfASuspectGroupAreNamed) {
  EXPECT_EQ(search(8, {0, 3}, {{0, 1, 2, 3}}).rows, (Rows{0, 3}));
  EXPECT_EQ(search(8, {6}, {{4, 5, 6, 7}}).rows, Rows{6});
}

TEST(SampleSearch, FindsTwoRowsInDifferentHalves) {
  for (std::int64_t a = 0; a < 4; ++a)
    for (std::int64_t b = 4; b < 8; ++b) {
      if (a == 0 && b == 7) continue;  // rows 0 and 7 are tried alone first; neither is finite
      EXPECT_EQ(search(8, {a, b}, {}, 12).rows, (Rows{a, b}));
    }
}

TEST(SampleSearch, NamesNoRowIfTheStateIsBad) {
  const Found found = search(16, {}, {{3}}, 11, true);
  EXPECT_TRUE(found.rows.empty());
  EXPECT_LE(found.replays, 5);
}

TEST(SampleSearch, NamesNoRowIfTheReplaysDoNotSuffice) {
  for (int most = 0; most < 6; ++most) EXPECT_TRUE(search(64, {1, 40}, {}, most).rows.empty()) << most;
}

TEST(SampleSearch, NamesNoMoreThanHalfOfTheRows) {
  EXPECT_TRUE(search(4, {0, 1, 2}).rows.empty());
  EXPECT_TRUE(search(1, {0}).rows.empty());
}

}  // namespace
}  // namespace binade::amp
