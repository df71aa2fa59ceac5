#include <cmath>
#include <vector>

#include "binade/core/kernels/cpu/column_blocks.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"

namespace binade::cpu {
namespace {

/// f(sample, channel, position in (samples, cols), position in (samples, groups))
template <class F>
void each_channel(const ChannelNorm& a, F&& f) {
  const std::int64_t width = a.cols / a.groups;
  for (std::int64_t sample = 0; sample < a.samples; ++sample)
    for (std::int64_t c = 0; c < a.cols; ++c)
      f(c, static_cast<std::size_t>(sample * a.cols + c), static_cast<std::size_t>(sample * a.groups + c / width));
}

/// Channel c of a weight (1 where it was left out) or a bias (0).
template <class C>
C parameter_of(const void* p, std::int64_t c, C otherwise) {
  return p != nullptr ? static_cast<const C*>(p)[c] : otherwise;
}

template <class C>
void forward_typed(const GroupNormForward& a) {
  const ColumnShape shape = column_blocks(a.dtype, a.samples, a.rows, a.cols);
  const ChannelMoments channels = channel_moments<C>(shape, a.x, a.x_pitch);
  std::vector<RunningMoments> groups(static_cast<std::size_t>(a.samples * a.groups));
  each_channel(a, [&](std::int64_t, std::size_t at, std::size_t group) {
    groups[group].add(static_cast<double>(a.rows), channels.mean[at], channels.squares[at]);
  });
  C* mean = static_cast<C*>(a.mean);
  C* rstd = static_cast<C*>(a.rstd);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    mean[g] = static_cast<C>(groups[g].mean);
    rstd[g] = reciprocal_deviation(static_cast<C>(groups[g].squares / groups[g].count), static_cast<C>(a.eps));
  }
  const auto values = static_cast<std::size_t>(a.samples * a.cols);
  std::vector<C> center(values), scale(values), bias(values);
  each_channel(a, [&](std::int64_t c, std::size_t at, std::size_t group) {
    center[at] = mean[group];
    scale[at] = rstd[group] * parameter_of(a.weight, c, C{1});
    bias[at] = parameter_of(a.bias, c, C{0});
  });
  ColumnApply apply{shape};
  apply.relu = a.relu;
  apply.x = a.x;
  apply.x_pitch = a.x_pitch;
  apply.residual = a.residual;
  apply.residual_pitch = a.residual_pitch;
  apply.mean = center.data();
  apply.scale = scale.data();
  apply.bias = bias.data();
  apply.y = a.y;
  apply.y_pitch = a.y_pitch;
  level().column_norm.apply(apply);
}

template <class C>
void backward_typed(const GroupNormBackward& a) {
  const auto values = static_cast<std::size_t>(a.samples * a.cols);
  const C* mean = static_cast<const C*>(a.mean);
  const C* rstd = static_cast<const C*>(a.rstd);
  std::vector<C> mean_of(values), scale(values), bias(values), slope(values), center(values), constant(values);
  each_channel(a, [&](std::int64_t c, std::size_t at, std::size_t group) {
    mean_of[at] = mean[group];
    scale[at] = rstd[group] * parameter_of(a.weight, c, C{1});
    bias[at] = parameter_of(a.bias, c, C{0});
  });
  ColumnGradientApply g{{column_blocks(a.dtype, a.samples, a.rows, a.cols)}};
  g.x = a.x;
  g.x_pitch = a.x_pitch;
  g.relu = a.relu;
  g.y = a.y;
  g.y_pitch = a.y_pitch;
  g.gy = a.gy;
  g.gy_pitch = a.gy_pitch;
  g.mean = mean_of.data();
  g.scale = scale.data();
  g.bias = bias.data();
  const ChannelSums sums = channel_gradient_sums<C>(g);

  const auto channels = static_cast<std::size_t>(a.cols);
  std::vector<double> gweight(channels, 0.0), gbias(channels, 0.0);
  std::vector<double> sum_g(static_cast<std::size_t>(a.samples * a.groups), 0.0), sum_gx = sum_g;
  each_channel(a, [&](std::int64_t c, std::size_t at, std::size_t group) {
    const double product = sums.product[at] * rstd[group];  // sum of gy xhat
    gbias[static_cast<std::size_t>(c)] += sums.sum[at];
    gweight[static_cast<std::size_t>(c)] += product;
    sum_g[group] += parameter_of(a.weight, c, C{1}) * sums.sum[at];
    sum_gx[group] += parameter_of(a.weight, c, C{1}) * product;
  });
  for (std::size_t c = 0; c < channels; ++c) {
    if (a.gweight != nullptr) static_cast<C*>(a.gweight)[c] = static_cast<C>(gweight[c]);
    if (a.gbias != nullptr) static_cast<C*>(a.gbias)[c] = static_cast<C>(gbias[c]);
  }
  if (a.gx == nullptr && a.gresidual == nullptr) return;
  const double count = static_cast<double>(a.rows) * static_cast<double>(a.cols / a.groups);
  // rstd (gy weight - avg(g)), split at the channel's own average of gy, so that what cancels does so before it is
  // scaled.
  each_channel(a, [&](std::int64_t c, std::size_t at, std::size_t group) {
    const double r = rstd[group], own = sums.sum[at] / static_cast<double>(a.rows);
    center[at] = static_cast<C>(own);
    slope[at] = static_cast<C>(-r * r * sum_gx[group] / count);
    constant[at] = static_cast<C>(r * (parameter_of(a.weight, c, C{1}) * own - sum_g[group] / count));
  });
  g.center = center.data();
  g.slope = slope.data();
  g.constant = constant.data();
  g.gx = a.gx;
  g.gr = a.gresidual;
  level().column_norm.gradient_apply(g);
}

}  // namespace

void run_group_norm_forward(const GroupNormForward& a) {
  a.dtype == DType::f64 ? forward_typed<double>(a) : forward_typed<float>(a);
}
void run_group_norm_backward(const GroupNormBackward& a) {
  a.dtype == DType::f64 ? backward_typed<double>(a) : backward_typed<float>(a);
}

}  // namespace binade::cpu
