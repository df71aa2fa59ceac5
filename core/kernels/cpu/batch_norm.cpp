#include "binade/core/kernels/cpu/column_blocks.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"

namespace binade::cpu {
namespace {

template <class C>
const C* values(const void* p) {
  return static_cast<const C*>(p);
}

/// Returns the columns of `a` with the scale rstd, which the loops multiply by the weight.
template <class Call>
ColumnBlocks scaled_columns(const Call& a) {
  ColumnBlocks columns = column_blocks(columns_of(a));
  columns.scale = a.rstd;
  return columns;
}

template <class C>
void forward_typed(const BatchNormForward& a) {
  const ColumnBlocks columns = scaled_columns(a);
  std::vector<RunningMoments> moments(static_cast<std::size_t>(a.cols));
  if (a.training) moments = channel_moments<C>(columns);
  for (std::int64_t c = 0; c < a.cols; ++c) {
    const RunningMoments& m = moments[static_cast<std::size_t>(c)];
    set_statistics<C>(a, c, m.mean, m.squares);
  }
  level().column_norm.apply(columns);
}

template <class C>
void backward_typed(const BatchNormBackward& a) {
  const auto cols = static_cast<std::size_t>(a.cols);
  std::vector<C> slope(cols, C{0}), center(cols, C{0});
  ColumnBlocks columns = scaled_columns(a);
  if (a.gweight != nullptr || a.gbias != nullptr || (a.training && a.gx != nullptr)) {
    const std::vector<GradientSums> sums = channel_gradient_sums<C>(columns);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const GradientSums& s = sums[static_cast<std::size_t>(c)];
      set_gradients(a, c, s.sum, s.product, center.data(), slope.data());
    }
  }
  if (a.gx == nullptr && a.gresidual == nullptr) return;
  columns.slope = slope.data();
  columns.center = center.data();
  level().column_norm.gradient_apply(columns);
}

template <class C>
void update_running_statistics(const MoveStatistics& a) {
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
  a.dtype == DType::f64 ? update_running_statistics<double>(a) : update_running_statistics<float>(a);
}

}  // namespace binade::cpu
