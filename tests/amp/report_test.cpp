#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "binade/doctor/report/axis.h"
#include "binade/doctor/report/format.h"
#include "binade/doctor/report/heat_map.h"
#include "binade/doctor/report/markup.h"
#include "binade/doctor/report/series.h"

namespace binade::doctor::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Series wave(std::size_t count) {
  std::mt19937 source(7);
  Series series;
  for (std::size_t i = 0; i < count; ++i)
    series.push_back({static_cast<double>(i + 1), static_cast<double>(source() % 1000)});
  return series;
}

TEST(Report, AShortSeriesIsDrawnPointByPoint) {
  const Series series = wave(50);
  EXPECT_EQ(keep_extremes(series, 50).size(), 50u);
  EXPECT_TRUE(keep_extremes({}, 4).empty());
}

TEST(Report, ALongSeriesKeepsItsEndsItsOrderAndEverySpike) {
  for (const std::size_t count : {1001u, 5000u, 123457u}) {
    Series series = wave(count);
    for (const std::size_t at : {std::size_t{1}, count / 3, count - 2}) {
      series[at].value = 5000;
      series[at + (at == 1 ? 1 : -1)].value = -5000;
    }
    const Series kept = keep_extremes(series, 1000);
    EXPECT_LE(kept.size(), 1000u);
    EXPECT_EQ(kept.front().step, 1);
    EXPECT_EQ(kept.back().step, static_cast<double>(count));
    for (std::size_t i = 1; i < kept.size(); ++i) ASSERT_LT(kept[i - 1].step, kept[i].step);
    const auto spikes = [&](double value) {
      return std::ranges::count_if(kept, [&](const Point& p) { return p.value == value; });
    };
    EXPECT_EQ(spikes(5000), 3) << count;
    EXPECT_EQ(spikes(-5000), 3) << count;
  }
}

TEST(Report, AMovingMeanOfAStraightLineIsTheLineAwayFromItsEnds) {
  Series line;
  for (int i = 0; i < 20; ++i) line.push_back({static_cast<double>(i), 3.0 * i});
  const Series means = moving_mean(line, 4);
  for (std::size_t i = 4; i < 16; ++i) EXPECT_DOUBLE_EQ(means[i].value, line[i].value);
  EXPECT_DOUBLE_EQ(means[0].value, 6) << "the mean of 0, 3, 6, 9, 12";
}

TEST(Report, CornersAreTheEndsOfConstantStretches) {
  const Series corners = corners_of({{1, 8}, {2, 8}, {3, 8}, {4, 4}, {5, 4}, {6, 2}});
  std::vector<double> steps;
  for (const Point& p : corners) steps.push_back(p.step);
  EXPECT_EQ(steps, (std::vector<double>{1, 3, 4, 5, 6}));
}

TEST(Report, AnAxisCoversItsValuesAndHasRoundTicks) {
  const Axis axis = Axis::around({{{1, 2.1}, {2, 3.9}}});
  EXPECT_GE(axis.at(2.1), 0);
  EXPECT_LE(axis.at(3.9), 1);
  std::vector<std::string> labels;
  for (const Tick& tick : axis.ticks(5)) labels.push_back(tick.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"2.5", "3.0", "3.5"}));
  EXPECT_EQ(Axis::around({{{1, 1e-3}, {2, 10}}}).scale(), Scale::kLog10);
  EXPECT_EQ(Axis::around({{{1, 65536}, {2, 1}}}, Scale::kLog2).ticks(20).back().label, "2¹⁶");
}

TEST(Report, EveryInputGivesAnAxisThatCanBeDrawn) {
  for (const double low : {0.0, 5.0, -1e300, 1e-300, 1e299})
    for (const double high : {low, low + 1e-9, 1e300})
      for (const Scale scale : {Scale::kLinear, Scale::kLog10, Scale::kLog2, Scale::kSteps}) {
        const Axis axis = Axis::around({{{1, low}, {2, high}}}, scale);
        EXPECT_TRUE(std::isfinite(axis.at(low))) << low << " " << high;
        EXPECT_TRUE(std::isfinite(axis.at(high))) << low << " " << high;
        EXPECT_LE(axis.ticks(5).size(), 120u);
      }
}

TEST(Report, TextIsEscaped) {
  EXPECT_EQ(text("<b a=\"1\">&'").html(), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
  EXPECT_EQ(element("p", {{"title", "\"><script>"}}, text("ä")).html(), "<p title=\"&quot;&gt;&lt;script&gt;\">ä</p>");
  EXPECT_EQ(text("a\x01\xff\xe2\x80\xae"
                 "b\n")
                .html(),
            "a\uFFFD\uFFFD\uFFFDb\n");
}

TEST(Report, Base64MatchesTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Report, NumbersAreFormattedForReaders) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
  EXPECT_EQ(count_text(123), "123");
  EXPECT_EQ(number_text(0.012345), "0.01235");
  EXPECT_EQ(number_text(77249.4), "77,249");
  EXPECT_EQ(number_text(-kInfinity), "-inf");
  EXPECT_EQ(duration_text(3.71), "3.7 s");
  EXPECT_EQ(duration_text(12000), "3 h 20 min");
  EXPECT_EQ(scale_text(0.125), "2⁻³");
  EXPECT_EQ(scale_text(3), "3");
  EXPECT_EQ(clipped("aéb", 2), "a…") << "a character is not cut in two";
}

TEST(Report, AHeatMapKeepsTheMinimumOfEachCell) {
  std::vector<HeadroomLine> lines;
  for (std::int64_t step = 1; step <= 1000; ++step)
    lines.push_back({.step = step, .modules = {{"a", 8, 9}, {"b", step == 500 ? 0.5 : 30, kInfinity}}});
  const HeatMap map = heat_map(lines, 64, 400);
  ASSERT_EQ(map.rows.size(), 2u);
  EXPECT_LE(map.columns * map.rows.size() * 2, 400u + 4);
  const auto column = static_cast<std::size_t>((500 - map.first_step) / map.stride);
  for (std::size_t i = 0; i < map.columns; ++i) EXPECT_EQ(map.rows[1].forward[i], i == column ? 0.5 : 30.0) << i;
  EXPECT_EQ(map.rows[0].module, "a") << "the order of the model";
}

TEST(Report, AHeatMapOfManyModulesKeepsThoseNearestToOverflow) {
  HeadroomLine line{.step = 1};
  for (int i = 0; i < 100; ++i) line.modules.push_back({fmt::format("m{}", i), 100.0 - i, kInfinity});
  const HeatMap map = heat_map({line}, 10, 1000);
  ASSERT_EQ(map.rows.size(), 10u);
  EXPECT_EQ(map.left_out, 90u);
  EXPECT_EQ(map.rows.front().module, "m90");
}

TEST(Report, EachShadeIsAFactorOfTwo) {
  std::vector<int> shades;
  for (const double binades : {-kInfinity, 0.0, 0.99, 1.0, 2.0, 4.0, 8.0, 15.9, 16.0, kInfinity})
    shades.push_back(shade_of(binades));
  EXPECT_EQ(shades, (std::vector<int>{0, 0, 1, 2, 3, 4, 5, 5, 6, 7}));
}

}  // namespace
}  // namespace binade::doctor::report
