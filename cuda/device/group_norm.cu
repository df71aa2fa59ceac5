#include "binade/core/math.h"
#include "binade/cuda/device/column_norm.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/thread_group.cuh"
#include "binade/cuda/device/vector.cuh"

namespace binade::cuda {
namespace {

constexpr int kWarps = 4;  // warps of a block; each warp processes one group

/// Computes totals (samples, cols, 2): the moments or sums of every channel over all stripes. A block processes some
/// columns of one sample.
template <class C, bool kMoments>
__global__ void combine(ChannelNorm a, ColumnCut cut, const C* parts, double* totals) {
  const std::int64_t across = (a.cols + kFoldColumns - 1) / kFoldColumns, sample = blockIdx.x / across;
  const std::int64_t c = (blockIdx.x - sample * across) * kFoldColumns + threadIdx.x;
  const C* mine = parts + sample * cut.stripes * (kMoments ? kMomentParts : kSumParts) * a.cols;
  const ChannelTotals total = kMoments ? combine_moments(mine, cut, a.rows, a.cols, c)
                                       : combine_sums(mine, cut, a.cols, c);
  if (c >= a.cols || threadIdx.y != 0) return;
  totals[2 * (sample * a.cols + c)] = total.first;
  totals[2 * (sample * a.cols + c) + 1] = total.second;
}

/// The group that this thread's warp processes.
struct Group {
  std::int64_t index, sample, first, width;
  bool live;
  int lane;
  __device__ explicit Group(const ChannelNorm& a)
      : index(blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / 32),
        sample(index / a.groups),
        width(a.cols / a.groups),
        live(index < a.samples * a.groups),
        lane(static_cast<int>(threadIdx.x) % 32) {
    first = (index - sample * a.groups) * width;
  }
};

/// Computes mean and rstd of every group, and two vectors (samples, cols): mean, and rstd times weight.
template <class C>
__global__ void statistics(GroupNormForward a, const double* totals, C* mean, C* scale) {
  const Group group(a);
  if (!group.live) return;
  ThreadGroup<double> warp(32, nullptr);
  const std::int64_t from = group.sample * a.cols;
  double sum[1] = {};
  for (std::int64_t c = group.first + group.lane; c < group.first + group.width; c += 32)
    sum[0] += totals[2 * (from + c)];
  warp.sum(sum);
  const double average = sum[0] / static_cast<double>(group.width), rows = static_cast<double>(a.rows);
  double squares[1] = {};
  for (std::int64_t c = group.first + group.lane; c < group.first + group.width; c += 32) {
    const double difference = totals[2 * (from + c)] - average;
    squares[0] += totals[2 * (from + c) + 1] + rows * difference * difference;
  }
  warp.sum(squares);
  const C variance = static_cast<C>(squares[0] / (rows * static_cast<double>(group.width)));
  const C rstd = reciprocal_deviation(variance, static_cast<C>(a.eps));
  if (group.lane == 0) {
    static_cast<C*>(a.mean)[group.index] = static_cast<C>(average);
    static_cast<C*>(a.rstd)[group.index] = rstd;
  }
  for (std::int64_t c = group.first + group.lane; c < group.first + group.width; c += 32) {
    mean[from + c] = static_cast<C>(average);
    scale[from + c] = rstd * at_or<C>(a.weight, c, C(1));
  }
}

/// Computes two vectors (samples, cols) from the stored statistics of the groups: mean, and rstd times weight.
template <class C>
__global__ void vectors(GroupNormBackward a, C* mean, C* scale) {
  const Group group(a);
  if (!group.live) return;
  const C m = static_cast<const C*>(a.mean)[group.index], rstd = static_cast<const C*>(a.rstd)[group.index];
  for (std::int64_t c = group.first + group.lane; c < group.first + group.width; c += 32) {
    mean[group.sample * a.cols + c] = m;
    scale[group.sample * a.cols + c] = rstd * at_or<C>(a.weight, c, C(1));
  }
}

/// Computes center, slope and constant for column_gradient_apply() from the channels' sums. rstd (gy weight - avg(g))
/// is written as scale (gy - center) + constant, where center is the channel's own average of gy, so that terms cancel
/// before they are scaled.
template <class C>
__global__ void gradients(GroupNormBackward a, const double* totals, C* center, C* slope, C* constant) {
  const Group group(a);
  if (!group.live) return;
  ThreadGroup<double> warp(32, nullptr);
  const std::int64_t from = group.sample * a.cols;
  const double rstd = static_cast<const C*>(a.rstd)[group.index];
  double sums[2] = {};  // sum of g, sum of g xhat
  for (std::int64_t c = group.first + group.lane; c < group.first + group.width; c += 32) {
    const double weight = at_or<C>(a.weight, c, C(1));
    sums[0] += weight * totals[2 * (from + c)];
    sums[1] += weight * totals[2 * (from + c) + 1] * rstd;
  }
  warp.sum(sums);
  const double rows = static_cast<double>(a.rows), count = rows * static_cast<double>(group.width);
  for (std::int64_t c = group.first + group.lane; c < group.first + group.width; c += 32) {
    const double own = totals[2 * (from + c)] / rows, weight = at_or<C>(a.weight, c, C(1));
    center[from + c] = static_cast<C>(own);
    slope[from + c] = static_cast<C>(-rstd * rstd * sums[1] / count);
    constant[from + c] = static_cast<C>(rstd * (weight * own - sums[0] / count));
  }
}

template <class C>
__global__ void parameter_gradients(GroupNormBackward a, const double* totals) {
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(kFoldColumns) + threadIdx.x;
  double sums[2] = {};  // sum of gbias, sum of gweight
  if (c < a.cols)
    for (std::int64_t sample = threadIdx.y; sample < a.samples; sample += kFoldRows) {
      const double rstd = static_cast<const C*>(a.rstd)[sample * a.groups + c / (a.cols / a.groups)];
      sums[0] += totals[2 * (sample * a.cols + c)];
      sums[1] += totals[2 * (sample * a.cols + c) + 1] * rstd;
    }
  fold(sums);
  if (c >= a.cols || threadIdx.y != 0) return;
  if (a.gbias != nullptr) static_cast<C*>(a.gbias)[c] = static_cast<C>(sums[0]);
  if (a.gweight != nullptr) static_cast<C*>(a.gweight)[c] = static_cast<C>(sums[1]);
}

unsigned group_grid(const ChannelNorm& a) { return static_cast<unsigned>(ceil_div(a.samples * a.groups, kWarps)); }

template <class C, bool kMoments>
void combine_into(const Buffer<double>& totals, const ChannelNorm& a, const ColumnCut& cut, const C* parts) {
  launch(combine<C, kMoments>, static_cast<unsigned>(a.samples) * fold_grid(a.cols), fold_block(), 0, a, cut, parts,
         totals.data());
}

template <class C>
void forward(const GroupNormForward& a) {
  Columns columns = columns_of(a);
  columns.weight = nullptr;
  const ColumnCut cut = cut_columns(columns);
  const std::int64_t values = a.samples * a.cols;
  const Buffer<C> mean(values), scale(values);
  columns.mean = mean.data();
  columns.scale = scale.data();  // already multiplied by the weight
  {
    const Buffer<C> parts(part_values(columns, cut, kMomentParts));
    const Buffer<double> totals(2 * values);
    column_moments(columns, cut, parts.data());
    combine_into<C, true>(totals, a, cut, parts.data());
    launch(statistics<C>, group_grid(a), 32 * kWarps, 0, a, totals.data(), mean.data(), scale.data());
  }
  column_apply(columns, cut);
}

template <class C>
void backward(const GroupNormBackward& a) {
  Columns columns = columns_of(a);
  columns.weight = nullptr;
  const ColumnCut cut = cut_columns(columns);
  const std::int64_t values = a.samples * a.cols;
  const Buffer<C> mean(values), scale(values), center(values), slope(values), constant(values);
  launch(vectors<C>, group_grid(a), 32 * kWarps, 0, a, mean.data(), scale.data());
  columns.mean = mean.data();
  columns.scale = scale.data();  // already multiplied by the weight
  const Buffer<C> parts(part_values(columns, cut, kSumParts));
  const Buffer<double> totals(2 * values);
  column_gradient_sums(columns, cut, parts.data());
  combine_into<C, false>(totals, a, cut, parts.data());
  if (a.gweight != nullptr || a.gbias != nullptr)
    launch(parameter_gradients<C>, fold_grid(a.cols), fold_block(), 0, a, totals.data());
  if (a.gx == nullptr && a.gresidual == nullptr) return;
  launch(gradients<C>, group_grid(a), 32 * kWarps, 0, a, totals.data(), center.data(), slope.data(), constant.data());
  columns.center = center.data();
  columns.slope = slope.data();
  columns.constant = constant.data();
  column_gradient_apply(columns, cut);
}

}  // namespace

void run_group_norm_forward(const GroupNormForward& call) {
  if (call.samples * call.rows * call.cols == 0) return;
  call.dtype == DType::f64 ? forward<double>(call) : forward<float>(call);
}
void run_group_norm_backward(const GroupNormBackward& call) {
  if (call.samples * call.rows * call.cols == 0) return;
  call.dtype == DType::f64 ? backward<double>(call) : backward<float>(call);
}

}  // namespace binade::cuda
