#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/doctor/report/line_chart.h"
#include "binade/doctor/report/markup.h"
#include "binade/doctor/report/run_history.h"

namespace binade::doctor::report {

/// Headroom by module (rows) and stretch of steps (columns): the least of each stretch; NaN where none was sampled.
struct HeatMap {
  struct Row {
    std::string module{};
    std::vector<double> forward{}, backward{};  ///< by column
    double least = 0;                           ///< of both
  };
  std::vector<Row> rows{};
  std::int64_t first_step = 0;
  std::int64_t stride = 1;  ///< steps per column
  std::size_t columns = 0;
  std::size_t left_out = 0;  ///< modules beyond `most_rows`: those with the most headroom
};
HeatMap heat_map(const std::vector<HeadroomLine>& lines, std::size_t most_rows, std::size_t most_cells);

/// Which shade a headroom has: 0 overflow, then up to 1, 2, 4, 8, 16 binades, 6 more, 7 nothing seen.
int shade_of(double binades);

/// A <figure> of both directions side by side, with its scale.
Markup draw(const HeatMap& map, const std::vector<Mark>& marks);

}  // namespace binade::doctor::report
