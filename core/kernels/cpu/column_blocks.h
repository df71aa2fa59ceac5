#pragma once

#include <vector>

#include "binade/core/kernels/channel_norm.h"
#include "binade/core/kernels/norm.h"

namespace binade::cpu {

/// Divides the rows into blocks that stay in a core's cache, by size alone.
ColumnShape column_blocks(const ChannelNorm& norm);

/// Channel c of a weight or a bias; `absent` if it is null.
template <class C>
/// Adds another set (Chan, Golub, LeVeque, 1983).
C parameter_of(const void* p, std::int64_t c, C absent) {
  return p != nullptr ? static_cast<const C*>(p)[c] : absent;
}

/// Calls f(channel, position in (samples, cols), position in (samples, groups)) for each channel of each sample.
template <class F>
void each_channel(const ChannelNorm& a, std::int64_t groups, F&& f) {
  if (a.cols == 0) return;
  const std::int64_t width = a.cols / groups;
  for (std::int64_t sample = 0; sample < a.samples; ++sample)
    for (std::int64_t c = 0; c < a.cols; ++c)
      f(c, static_cast<std::size_t>(sample * a.cols + c), static_cast<std::size_t>(sample * groups + c / width));
}

/// What the column loops read: y = (x - mean) scale + bias, each (samples, cols). C is the computing type.
template <class C>
struct Affine {
  std::vector<C> mean{}, scale{}, bias{};

  /// From mean and 1 / deviation of each group, (samples, groups).
  Affine(const ChannelNorm& a, std::int64_t groups, const void* group_mean, const void* group_rstd) {
    each_channel(a, groups, [&](std::int64_t c, std::size_t, std::size_t group) {
      mean.push_back(static_cast<const C*>(group_mean)[group]);
      scale.push_back(static_cast<const C*>(group_rstd)[group] * parameter_of(a.weight, c, C{1}));
      bias.push_back(parameter_of(a.bias, c, C{0}));
    });
  }
};

template <class C>
ColumnApply column_apply(const ChannelNormForward& a, const Affine<C>& affine);
/// Without center, slope and constant.
template <class C>
ColumnGradientApply column_gradient(const ChannelNormBackward& a, const Affine<C>& affine);

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
