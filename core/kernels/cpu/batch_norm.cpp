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
  const ColumnShape shape = column_blocks(a.dtype, 1, a.rows, a.cols);
  if (a.training) {
    const ChannelMoments moments = channel_moments<C>(shape, a.x, a.x_pitch);
    for (std::size_t c = 0; c < cols; ++c) {
      static_cast<C*>(a.mean)[c] = static_cast<C>(moments.mean[c]);
      static_cast<C*>(a.var)[c] = static_cast<C>(moments.squares[c] / static_cast<double>(a.rows));
    }
  }
  std::vector<C> scale(cols), bias(cols);
  for (std::size_t c = 0; c < cols; ++c) {
    const C rstd = reciprocal_deviation(values<C>(a.var)[c], static_cast<C>(a.eps));
    static_cast<C*>(a.rstd)[c] = rstd;
    scale[c] = a.weight != nullptr ? rstd * values<C>(a.weight)[c] : rstd;
    bias[c] = a.bias != nullptr ? values<C>(a.bias)[c] : C{0};
  }
  ColumnApply apply{shape};
  apply.relu = a.relu;
  apply.x = a.x;
  apply.x_pitch = a.x_pitch;
  apply.residual = a.residual;
  apply.residual_pitch = a.residual_pitch;
  apply.mean = a.mean;
  apply.scale = scale.data();
  apply.bias = bias.data();
  apply.y = a.y;
  apply.y_pitch = a.y_pitch;
  level().column_norm.apply(apply);
}

template <class C>
void backward_typed(const BatchNormBackward& a) {
  const auto cols = static_cast<std::size_t>(a.cols);
  std::vector<C> scale(cols), bias(cols), slope(cols, C{0}), center(cols, C{0});
  for (std::size_t c = 0; c < cols; ++c) {
    scale[c] = a.weight != nullptr ? values<C>(a.rstd)[c] * values<C>(a.weight)[c] : values<C>(a.rstd)[c];
    bias[c] = a.bias != nullptr ? values<C>(a.bias)[c] : C{0};
  }
  ColumnGradientApply g{{column_blocks(a.dtype, 1, a.rows, a.cols)}};
  g.relu = a.relu;
  g.x = a.x;
  g.x_pitch = a.x_pitch;
  g.y = a.y;
  g.y_pitch = a.y_pitch;
  g.gy = a.gy;
  g.gy_pitch = a.gy_pitch;
  g.mean = a.mean;
  g.scale = scale.data();
  g.bias = bias.data();
  if (a.gweight != nullptr || a.gbias != nullptr || (a.training && a.gx != nullptr)) {
    const ChannelSums sums = channel_gradient_sums<C>(g);
    const double count = static_cast<double>(a.rows);
    for (std::size_t c = 0; c < cols; ++c) {
      const double rstd = values<C>(a.rstd)[c], product = sums.product[c] * rstd;  // sum of gy' xhat
      if (a.gbias != nullptr) static_cast<C*>(a.gbias)[c] = static_cast<C>(sums.sum[c]);
      if (a.gweight != nullptr) static_cast<C*>(a.gweight)[c] = static_cast<C>(product);
      if (!a.training) continue;
      slope[c] = static_cast<C>(-static_cast<double>(scale[c]) * rstd * product / count);
      center[c] = static_cast<C>(sums.sum[c] / count);
    }
  }
  if (a.gx == nullptr && a.gresidual == nullptr) return;
  g.slope = slope.data();
  g.center = center.data();
  g.gx = a.gx;
  g.gr = a.gresidual;
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
