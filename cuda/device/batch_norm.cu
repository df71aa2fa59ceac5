#include <algorithm>

#include "binade/core/math.h"
#include "binade/cuda/device/column_norm.cuh"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/vector.cuh"

namespace binade::cuda {
namespace {

/// Computes mean and var from the moments of all stripes, if training, and rstd from var.
template <class C>
__global__ void statistics(BatchNormForward a, ColumnCut cut, const C* parts) {
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(kFoldColumns) + threadIdx.x;
  ChannelTotals total;
  if (a.training) total = combine_moments(parts, cut, a.rows, a.cols, c);
  if (c < a.cols && threadIdx.y == 0) set_statistics<C>(a, c, total.first, total.second);
}

/// Computes gweight and gbias and, if training, the center and slope that column_gradient_apply() reads.
template <class C>
__global__ void gradients(BatchNormBackward a, ColumnCut cut, const C* parts, C* center, C* slope) {
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(kFoldColumns) + threadIdx.x;
  const ChannelTotals total = combine_sums(parts, cut, a.cols, c);
  if (c < a.cols && threadIdx.y == 0) set_gradients(a, c, total.first, total.second, center, slope);
}

__global__ void update_running_statistics(MoveStatistics a) {
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (c == 0) ++*a.batches;
  if (c >= a.cols) return;
  a.running_mean[c] = a.rest * a.running_mean[c] + a.share * load_at<float>(a.mean, a.dtype, c);
  a.running_var[c] = a.rest * a.running_var[c] + a.share * (load_at<float>(a.var, a.dtype, c) * a.unbiased);
}

/// Returns the columns of `a` with the scale rstd, which the kernels multiply by the weight.
template <class Call>
Columns scaled_columns(const Call& a) {
  Columns columns = columns_of(a);
  columns.scale = a.rstd;
  return columns;
}

template <class C>
void forward(const BatchNormForward& a) {
  const Columns columns = scaled_columns(a);
  const ColumnCut cut = cut_columns(columns);
  const Buffer<C> parts(a.training ? part_values(columns, cut, kMomentParts) : 0);
  if (a.training) column_moments(columns, cut, parts.data());
  launch(statistics<C>, fold_grid(a.cols), fold_block(), 0, a, cut, parts.data());
  column_apply(columns, cut);
}

template <class C>
void backward(const BatchNormBackward& a) {
  Columns columns = scaled_columns(a);
  const ColumnCut cut = cut_columns(columns);
  const std::int64_t padded_cols = ceil_div(a.cols, kPack) * kPack;
  const Buffer<C> vectors(2 * padded_cols);
  C *center = vectors.data(), *slope = center + padded_cols;
  const bool moving = a.training && a.gx != nullptr;
  if (a.gweight != nullptr || a.gbias != nullptr || moving) {
    const Buffer<C> parts(part_values(columns, cut, kSumParts));
    column_gradient_sums(columns, cut, parts.data());
    launch(gradients<C>, fold_grid(a.cols), fold_block(), 0, a, cut, parts.data(), center, slope);
  }
  if (moving) {
    columns.center = center;
    columns.slope = slope;
  }
  column_gradient_apply(columns, cut);
}

}  // namespace

void run_batch_norm_forward(const BatchNormForward& call) {
  if (call.cols == 0) return;
  call.dtype == DType::f64 ? forward<double>(call) : forward<float>(call);
}
void run_batch_norm_backward(const BatchNormBackward& call) {
  if (call.cols == 0) return;
  call.dtype == DType::f64 ? backward<double>(call) : backward<float>(call);
}
void run_move_statistics(const MoveStatistics& call) {
  launch(update_running_statistics, static_cast<unsigned>(ceil_div(std::max<std::int64_t>(1, call.cols), 256)), 256, 0,
         call);
}

}  // namespace binade::cuda
