#pragma once

#include <cstddef>
#include <vector>

namespace binade::doctor::report {

struct Point {
  double step = 0;
  double value = 0;
};
using Series = std::vector<Point>;  ///< ascending by step

/// The points that can be drawn.
Series finite_of(const Series& series);

/// At most `limit` (>= 4) points: the first, the last, and of each stretch between them the smallest and the largest,
/// in their order. A spike of one step stays.
Series keep_extremes(const Series& series, std::size_t limit);

/// Each point's mean with those around it: `reach` to either side, fewer near the ends.
Series moving_mean(const Series& series, std::size_t reach);

/// The corners of a series that stays constant for long: where a value begins and where it ends.
Series corners_of(const Series& series);

double median_of(std::vector<double> values);

}  // namespace binade::doctor::report
