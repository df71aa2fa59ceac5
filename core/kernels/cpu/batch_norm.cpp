#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/core/kernels/cpu/column_blocks.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"

namespace binade::cpu {
namespace {

template <class C>
const C* values(const void* p) {
  return static_cast<const C*>(p);
}

template <class C>
void forward_typed(const BatchNormForward& a) {
  const auto cols = static_cast<std::size_t>(a.cols);
  if (a.training) {
    const ChannelMoments moments = channel_moments<C>(column_blocks(a), a.x, a.x_pitch);
    for (std::size_t c = 0; c < cols; ++c) {
      static_cast<C*>(a.mean)[c] = static_cast<C>(moments.mean[c]);
      static_cast<C*>(a.var)[c] = static_cast<C>(moments.squares[c] / static_cast<double>(a.rows));
    }
  }
  for (std::size_t c = 0; c < cols; ++c)
    static_cast<C*>(a.rstd)[c] = reciprocal_deviation(values<C>(a.var)[c], static_cast<C>(a.eps));
  const Affine<C> affine(a, a.cols, a.mean, a.rstd);
  level().column_norm.apply(column_apply(a, affine));
}

template <class C>
void backward_typed(const BatchNormBackward& a) {
  const auto cols = static_cast<std::size_t>(a.cols);
  std::vector<C> slope(cols, C{0}), center(cols, C{0});
  const Affine<C> affine(a, a.cols, a.mean, a.rstd);
  ColumnGradientApply g = column_gradient(a, affine);
  if (a.gweight != nullptr || a.gbias != nullptr || (a.training && a.gx != nullptr)) {
    const ChannelSums sums = channel_gradient_sums<C>(g);
    const double count = static_cast<double>(a.rows);
    for (std::size_t c = 0; c < cols; ++c) {
      const double rstd = values<C>(a.rstd)[c], product = sums.product[c] * rstd;  // sum of gy' xhat
      if (a.gbias != nullptr) static_cast<C*>(a.gbias)[c] = static_cast<C>(sums.sum[c]);
      if (a.gweight != nullptr) static_cast<C*>(a.gweight)[c] = static_cast<C>(product);
      if (!a.training) continue;
      slope[c] = static_cast<C>(-static_cast<double>(affine.scale[c]) * rstd * product / count);
      center[c] = static_cast<C>(sums.sum[c] / count);
    }
  }
  if (a.gx == nullptr && a.gresidual == nullptr) return;
  g.slope = slope.data();
  g.center = center.data();
  level().column_norm.gradient_apply(g);
}

template <class C>
void move_typed(const MoveStatistics& a) {
  for (std::int64_t c = 0; c < a.cols; ++c) {
    a.running_mean[c] = a.rest * a.running_mean[c] + a.share * static_cast<float>(values<C>(a.mean)[c]);
    a.running_var[c] = a.rest * a.running_var[c] + a.share * (static_cast<float>(values<C>(a.var)[c]) * a.unbiased);
  }
  ++*a.batches;
}

}  // namespace

void run_batch_norm_forward(const BatchNormForward& a) {
  a.dtype == DType::f64 ? forward_typed<double>(a) : forward_typed<float>(a);
}
void run_batch_norm_backward(const BatchNormBackward& a) {
  a.dtype == DType::f64 ? backward_typed<double>(a) : backward_typed<float>(a);
}
void run_move_statistics(const MoveStatistics& a) {
  a.dtype == DType::f64 ? move_typed<double>(a) : move_typed<float>(a);
}

}  // namespace binade::cpu
