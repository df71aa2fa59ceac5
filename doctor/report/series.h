#pragma once

#include <cstddef>
#include <vector>

namespace binade::doctor::report {

/// One value of a quantity that is recorded during a run.
struct Point {
  double step = 0;
  double value = 0;
};
using Series = std::vector<Point>;  ///< ascending by step

/// Returns the points whose values are finite and small enough to be drawn.
Series finite_of(const Series& series);

/// Reduces a series to at most `limit` (>= 4) points: the first, the last, and the smallest and the largest of each
/// range between them, in order, so that a spike of one step stays visible.
Series keep_extremes(const Series& series, std::size_t limit);

/// Returns a smoothed series: each value is the mean of the point and of up to `reach` neighbors on either side.
Series moving_mean(const Series& series, std::size_t reach);

/// Returns the first and the last point of each range of equal values. These points determine a line that consists of
/// horizontal and vertical parts.
Series corners_of(const Series& series);

/// Returns the median of the values (the upper one of two), or 0 if there are none.
double median_of(std::vector<double> values);

}  // namespace binade::doctor::report
