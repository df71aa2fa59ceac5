#include "binade/core/kernels/cpu/column_blocks.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"

namespace binade::cpu {
namespace {

/// Calls f(channel, position in (samples, cols), position in (samples, groups)) for each channel of each sample.
template <class F>
void each_channel(const ChannelNorm& a, F&& f) {
  if (a.cols == 0) return;
  const std::int64_t width = a.cols / a.groups;
  for (std::int64_t sample = 0; sample < a.samples; ++sample)
    for (std::int64_t c = 0; c < a.cols; ++c)
      f(c, static_cast<std::size_t>(sample * a.cols + c), static_cast<std::size_t>(sample * a.groups + c / width));
}

/// The mean and 1 / sqrt(variance + eps) of each group, repeated for each channel of the group, as vectors (samples,
/// cols).
template <class C>
struct GroupVectors {
  std::vector<C> mean{}, rstd{};
  GroupVectors(const ChannelNorm& a, const void* group_mean, const void* group_rstd) {
    each_channel(a, [&](std::int64_t, std::size_t, std::size_t group) {
      mean.push_back(static_cast<const C*>(group_mean)[group]);
      rstd.push_back(static_cast<const C*>(group_rstd)[group]);
    });
  }
};

template <class C>
void forward_typed(const GroupNormForward& a) {
  ColumnBlocks columns = column_blocks(columns_of(a));
  const std::vector<RunningMoments> channels = channel_moments<C>(columns);
  std::vector<RunningMoments> groups(static_cast<std::size_t>(a.samples * a.groups));
  each_channel(a, [&](std::int64_t, std::size_t at, std::size_t group) {
    groups[group].add(static_cast<double>(a.rows), channels[at].mean, channels[at].squares);
  });
  C* mean = static_cast<C*>(a.mean);
  C* rstd = static_cast<C*>(a.rstd);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    mean[g] = static_cast<C>(groups[g].mean);
    rstd[g] = reciprocal_deviation(static_cast<C>(groups[g].squares / groups[g].count), static_cast<C>(a.eps));
  }
  const GroupVectors<C> vectors(a, a.mean, a.rstd);
  columns.mean = vectors.mean.data();
  columns.scale = vectors.rstd.data();
  level().column_norm.apply(columns);
}

template <class C>
void backward_typed(const GroupNormBackward& a) {
  const auto values = static_cast<std::size_t>(a.samples * a.cols);
  const C* rstd = static_cast<const C*>(a.rstd);
  std::vector<C> slope(values), center(values), constant(values);
  const GroupVectors<C> vectors(a, a.mean, a.rstd);
  ColumnBlocks columns = column_blocks(columns_of(a));
  columns.mean = vectors.mean.data();
  columns.scale = vectors.rstd.data();
  const std::vector<GradientSums> sums = channel_gradient_sums<C>(columns);

  const auto channels = static_cast<std::size_t>(a.cols);
  std::vector<double> gweight(channels, 0.0), gbias(channels, 0.0);
  std::vector<double> sum_g(static_cast<std::size_t>(a.samples * a.groups), 0.0), sum_gx = sum_g;
  each_channel(a, [&](std::int64_t c, std::size_t at, std::size_t group) {
    const double product = sums[at].product * rstd[group];  // sum of gy xhat
    gbias[static_cast<std::size_t>(c)] += sums[at].sum;
    gweight[static_cast<std::size_t>(c)] += product;
    sum_g[group] += at_or<C>(a.weight, c, C(1)) * sums[at].sum;
    sum_gx[group] += at_or<C>(a.weight, c, C(1)) * product;
  });
  for (std::size_t c = 0; c < channels; ++c) {
    if (a.gweight != nullptr) static_cast<C*>(a.gweight)[c] = static_cast<C>(gweight[c]);
    if (a.gbias != nullptr) static_cast<C*>(a.gbias)[c] = static_cast<C>(gbias[c]);
  }
  if (a.gx == nullptr && a.gresidual == nullptr) return;
  const double count = static_cast<double>(a.rows) * static_cast<double>(a.cols / a.groups);
  // gx contains rstd (gy weight - avg(g)). It is computed as scale (gy - center) + constant, where center is the
  // channel's own average of gy, so that terms cancel before they are scaled.
  each_channel(a, [&](std::int64_t c, std::size_t at, std::size_t group) {
    const double r = rstd[group], own = sums[at].sum / static_cast<double>(a.rows);
    center[at] = static_cast<C>(own);
    slope[at] = static_cast<C>(-r * r * sum_gx[group] / count);
    constant[at] = static_cast<C>(r * (at_or<C>(a.weight, c, C(1)) * own - sum_g[group] / count));
  });
  columns.center = center.data();
  columns.slope = slope.data();
  columns.constant = constant.data();
  level().column_norm.gradient_apply(columns);
}

}  // namespace

void run_group_norm_forward(const GroupNormForward& a) {
  a.dtype == DType::f64 ? forward_typed<double>(a) : forward_typed<float>(a);
}
void run_group_norm_backward(const GroupNormBackward& a) {
  a.dtype == DType::f64 ? backward_typed<double>(a) : backward_typed<float>(a);
}

}  // namespace binade::cpu
