#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/doctor/report/line_chart.h"
#include "binade/doctor/report/markup.h"
#include "binade/doctor/report/run_history.h"

namespace binade::doctor::report {

/// A table of the least headroom of each module (row) in each range of steps (column); NaN if none was sampled.
struct HeatMap {
  struct Row {
    std::string module{};
    std::vector<double> forward{}, backward{};  ///< least headroom, by column
    double least = 0;                           ///< least headroom in both directions
  };
  std::vector<Row> rows{};
  std::int64_t first_step = 0;
  std::int64_t stride = 1;  ///< steps per column
  std::size_t columns = 0;
  std::size_t left_out = 0;  ///< number of modules that were omitted because they have the most headroom
};
/// Makes the map of a run with at most `most_rows` rows and about `most_cells` cells.
HeatMap heat_map(const std::vector<HeadroomLine>& lines, std::size_t most_rows, std::size_t most_cells);

/// Returns the number of the shade that shows a headroom: 0 for overflow; 1 to 5 for less than 1, 2, 4, 8 and 16
/// binades; 6 for more; 7 if there are no values.
int shade_of(double binades);

/// Draws a <figure> with both directions side by side and the scale of shades.
Markup draw(const HeatMap& map, const std::vector<Mark>& marks);

}  // namespace binade::doctor::report
