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
  std::string name{};   ///< for the legend and the readout; empty: neither
  std::string color{};  ///< a class of the style sheet: "c1" … "c4"
  Stroke stroke = Stroke::kFirm;
  Series points{};
};

/// Something that happened at a step: a line through the chart, with a title and an anchor to go to.
struct Mark {
  std::int64_t step = 0;
  bool drill = false;
  std::string title{};
  std::string anchor{};
};

struct LineChart {
  std::string title{};
  std::string remark{};  ///< beside the title
  std::vector<Line> lines{};
  std::vector<Mark> marks{};
  std::vector<double> ticks_below{};  ///< steps marked along the lower edge
  std::optional<Scale> scale{};       ///< of the values; left out: linear or logarithmic, chosen from the values
  double first_step = 0, last_step = 1;
  bool wide = false;    ///< takes the whole width of the page
  double height = 210;  ///< where the page's is 1080
};

/// A <figure> with the chart as inline SVG; one that says so where there is nothing to draw.
Markup draw(const LineChart& chart);

}  // namespace binade::doctor::report
