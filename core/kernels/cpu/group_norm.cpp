#include <cmath>
#include <vector>

#include "binade/core/kernels/cpu/column_blocks.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"

namespace binade::cpu {
namespace {

template <class C>
void forward_typed(const GroupNormForward& a) {
  const ChannelMoments channels = channel_moments<C>(column_blocks(a), a.x, a.x_pitch);
  std::vector<RunningMoments> groups(static_cast<std::size_t>(a.samples * a.groups));
  each_channel(a, a.groups, [&](std::int64_t, std::size_t at, std::size_t group) {
    groups[group].add(static_cast<double>(a.rows), channels.mean[at], channels.squares[at]);
  });
  C* mean = static_cast<C*>(a.mean);
  C* rstd = static_cast<C*>(a.rstd);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    mean[g] = static_cast<C>(groups[g].mean);
    rstd[g] = reciprocal_deviation(static_cast<C>(groups[g].squares / groups[g].count), static_cast<C>(a.eps));
  }
  const Affine<C> affine(a, a.groups, a.mean, a.rstd);
  level().column_norm.apply(column_apply(a, affine));
}

template <class C>
void backward_typed(const GroupNormBackward& a) {
  const auto values = static_cast<std::size_t>(a.samples * a.cols);
  const C* rstd = static_cast<const C*>(a.rstd);
  std::vector<C> slope(values), center(values), constant(values);
  const Affine<C> affine(a, a.groups, a.mean, a.rstd);
  ColumnGradientApply g = column_gradient(a, affine);
  const ChannelSums sums = channel_gradient_sums<C>(g);

  const auto channels = static_cast<std::size_t>(a.cols);
  std::vector<double> gweight(channels, 0.0), gbias(channels, 0.0);
  std::vector<double> sum_g(static_cast<std::size_t>(a.samples * a.groups), 0.0), sum_gx = sum_g;
  each_channel(a, a.groups, [&](std::int64_t c, std::size_t at, std::size_t group) {
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
  each_channel(a, a.groups, [&](std::int64_t c, std::size_t at, std::size_t group) {
    const double r = rstd[group], own = sums.sum[at] / static_cast<double>(a.rows);
    center[at] = static_cast<C>(own);
    slope[at] = static_cast<C>(-r * r * sum_gx[group] / count);
    constant[at] = static_cast<C>(r * (parameter_of(a.weight, c, C{1}) * own - sum_g[group] / count));
  });
  g.center = center.data();
  g.slope = slope.data();
  g.constant = constant.data();
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
