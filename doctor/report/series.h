#pragma once

#include <cstddef>
#include <vector>

namespace binade::doctor::report {

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

/// Returns the first and the last point of each range of equal values. A line of stairs needs no others.
Series corners_of(const Series& series);

double median_of(std::vector<double> values);

}  // namespace binade::doctor::report
