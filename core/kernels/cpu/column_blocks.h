#pragma once

#include <vector>

#include "binade/core/kernels/norm.h"

namespace binade::cpu {

/// Divides the rows into blocks that fit in a core's cache. The division depends on the sizes alone.
ColumnBlocks column_blocks(const Columns& columns);

/// The mean of `count` values, and the sum of their squared deviations from the mean.
struct RunningMoments {
  double count = 0, mean = 0, squares = 0;
  /// Merges the moments of another set of values (Chan, Golub, LeVeque, 1983).
  void add(double other_count, double other_mean, double other_squares) {
    if (other_count == 0) return;
    const double total = count + other_count, delta = other_mean - mean;
    mean += delta * (other_count / total);
    squares += other_squares + delta * delta * (count * other_count / total);
    count = total;
  }
};
/// The two sums over a channel's values that backward needs.
struct GradientSums {
  double sum = 0, product = 0;  ///< sum of gy', sum of gy' (x - mean), where gy' is gy after the ReLU's mask
};

/// Return (samples, cols) results. Sum blocks in C, the computing type of columns.dtype, and combine them in double, in
/// the order of the blocks, so that the bits do not depend on the number of threads.
template <class C>
std::vector<RunningMoments> channel_moments(const ColumnBlocks& columns);
template <class C>
std::vector<GradientSums> channel_gradient_sums(const ColumnBlocks& columns);

}  // namespace binade::cpu
