#pragma once

#include <vector>

#include "binade/core/kernels/norm.h"

namespace binade::cpu {

/// Rows of channels cut into blocks that stay in a core's cache, by size alone.
ColumnShape column_blocks(DType dtype, std::int64_t samples, std::int64_t rows, std::int64_t cols);

/// Per sample and channel, (samples, cols).
struct ChannelMoments {
  std::vector<double> mean{}, squares{};  ///< squares: sum of (x - mean)^2
};
struct ChannelSums {
  std::vector<double> sum{}, product{};  ///< sum of gy', sum of gy' (x - mean)
};

/// C is the computing type of shape.dtype. Block partials in C, combined in double in block order: the same bits at any
/// number of threads.
template <class C>
ChannelMoments channel_moments(const ColumnShape& shape, const void* x, std::int64_t x_pitch);
/// `gradient.partial` is provided here.
template <class C>
ChannelSums channel_gradient_sums(ColumnGradientSums gradient);

/// Adds a set of `count` values with its mean and squared deviations to another (Chan, Golub, LeVeque, 1983).
struct RunningMoments {
  double count = 0, mean = 0, squares = 0;
  void add(double other_count, double other_mean, double other_squares) {
    if (other_count == 0) return;
    const double total = count + other_count, delta = other_mean - mean;
    mean += delta * (other_count / total);
    squares += other_squares + delta * delta * (count * other_count / total);
    count = total;
  }
};

}  // namespace binade::cpu
