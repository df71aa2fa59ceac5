#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/doctor/report/axis.h"
#include "binade/doctor/report/markup.h"
#include "binade/doctor/report/series.h"

namespace binade::doctor::report {

enum class Stroke { kFirm, kPale, kStairs, kDots };

struct Line {
  std::string name{};   ///< for the legend and the values under the pointer; empty: in neither
  std::string color{};  ///< class of the style sheet: "c1" … "c4"
  Stroke stroke = Stroke::kFirm;
  Series points{};
};

/// An incident at a step: a vertical line in the chart, with a title and a link.
struct Mark {
  std::int64_t step = 0;
  bool drill = false;
  std::string title{};
  std::string anchor{};
};

struct LineChart {
  std::string title{};
  std::string remark{};  ///< text beside the title
  std::vector<Line> lines{};
  std::vector<Mark> marks{};
  std::vector<double> ticks_below{};  ///< steps marked at the lower edge
  std::optional<Scale> scale{};       ///< scale of the values; std::nullopt: linear or logarithmic, by the values
  double first_step = 0, last_step = 1;
  bool wide = false;    ///< true if the chart takes the whole width of the page
  double height = 210;  ///< in units of which the page's width has 1080
};

/// Draws a <figure> with the chart as inline SVG, or with a remark if there are no values.
Markup draw(const LineChart& chart);

}  // namespace binade::doctor::report
