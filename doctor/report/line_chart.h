#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/doctor/report/axis.h"
#include "binade/doctor/report/markup.h"
#include "binade/doctor/report/series.h"

namespace binade::doctor::report {

/// How a line is drawn: kPale is in a light color, kStairs has only horizontal and vertical parts, kDots marks points.
enum class Stroke { kFirm, kPale, kStairs, kDots };

/// One line of a chart.
struct Line {
  std::string name{};   ///< shown in the legend and with the values under the pointer; empty: shown in neither
  std::string color{};  ///< class of the style sheet: "c1" … "c4"
  Stroke stroke = Stroke::kFirm;
  Series points{};
};

/// An incident at a step: a vertical line in the chart, with a title and a link.
struct Mark {
  std::int64_t step = 0;
  bool drill = false;
  std::string title{};
  std::string anchor{};  ///< link: "#incident-3"
};

/// A chart of one or more quantities over the steps of a run.
struct LineChart {
  std::string title{};
  std::string remark{};  ///< text next to the title
  std::vector<Line> lines{};
  std::vector<Mark> marks{};
  std::vector<double> ticks_below{};  ///< steps marked at the lower edge
  std::optional<Scale> scale{};       ///< scale of the values; std::nullopt: chosen by Axis::around()
  double first_step = 0, last_step = 1;
  bool wide = false;    ///< true if the chart takes the whole width of the page
  double height = 210;  ///< in units of 1/1080 of the page's width
};

/// Draws a <figure> with the chart as inline SVG, or with a remark if there are no values.
Markup draw(const LineChart& chart);

}  // namespace binade::doctor::report
