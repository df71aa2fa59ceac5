#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/sort.cuh"
#include "binade/cuda/device/value.cuh"

/// Sums over taps (TapSums). One thread computes one element, in the order of the terms.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

template <class C>
__global__ void gather_weighted(WeightedGatherArgs a) {
  const TapSums s = a.sums;
  each_index(s.batches * s.points * s.cols, [&](std::int64_t i) {
    const std::int64_t p = i / s.cols, c = i - p * s.cols, first = p / s.points * s.rows;
    C sum = 0;
    for (std::int64_t t = p * s.taps; t < (p + 1) * s.taps; ++t) {
      const std::int64_t index = s.index[t];
      if (index >= 0 && index < s.rows)
        sum += load_at<C>(a.weight, t) * load_at<C>(a.table, (first + index) * s.cols + c);
    }
    store_at(a.points.data, a.points.dtype, i, sum);
  });
}

/// Writes the rows of all taps as sort keys; those that refer to no row become one key that is larger than all others.
__global__ void write_rows(TapSums s, std::uint32_t none, std::uint32_t* keys) {
  each_index(s.batches * s.points * s.taps, [&](std::int64_t t) {
    const std::int64_t index = s.index[t];
    keys[t] = index >= 0 && index < s.rows ? static_cast<std::uint32_t>(t / (s.points * s.taps) * s.rows + index)
                                           : none;
  });
}

/// begin[r] = the number of taps of rows before r, for r = 0 … rows.
__global__ void find_rows(const std::uint32_t* keys, std::int64_t count, std::int64_t rows, std::int64_t* begin) {
  each_index(rows + 1, [&](std::int64_t r) {
    std::int64_t low = 0, high = count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (keys[middle] < r)
        low = middle + 1;
      else
        high = middle;
    }
    begin[r] = low;
  });
}

template <class C>
__global__ void scatter_weighted(WeightedScatterArgs a, const std::int64_t* begin, const std::uint32_t* taps) {
  const TapSums s = a.sums;
  each_index(s.batches * s.rows * s.cols, [&](std::int64_t i) {
    const std::int64_t row = i / s.cols, c = i - row * s.cols;
    C sum = 0;
    for (std::int64_t k = begin[row]; k < begin[row + 1]; ++k)
      sum += load_at<C>(a.weight, taps[k]) * load_at<C>(a.points, taps[k] / s.taps * s.cols + c);
    store_at(a.table.data, a.table.dtype, i, sum);
  });
}

template <class C>
__global__ void dot_weighted(WeightedDotArgs a) {
  const TapSums s = a.sums;
  each_index(s.batches * s.points * s.taps, [&](std::int64_t t) {
    const std::int64_t p = t / s.taps, index = s.index[t];
    C sum = 0;
    if (index >= 0 && index < s.rows) {
      const std::int64_t row = (p / s.points * s.rows + index) * s.cols;
      for (std::int64_t c = 0; c < s.cols; ++c)
        sum += load_at<C>(a.table, row + c) * load_at<C>(a.points, p * s.cols + c);
    }
    store_at(a.products.data, a.products.dtype, t, sum);
  });
}

template <class... Operands>
bool any_wide(const Operands&... operands) {
  return (... || (operands.dtype == DType::f64));
}

}  // namespace

void run_weighted_gather(const WeightedGatherArgs& a) {
  const std::int64_t count = a.sums.batches * a.sums.points * a.sums.cols;
  if (count == 0) return;
  launch(any_wide(a.table) ? gather_weighted<double> : gather_weighted<float>, grid_for(ceil_div(count, kThreads)),
         kThreads, 0, a);
}

void run_weighted_scatter(const WeightedScatterArgs& a) {
  const TapSums& s = a.sums;
  const std::int64_t rows = s.batches * s.rows, taps = s.batches * s.points * s.taps, count = rows * s.cols;
  if (count == 0) return;
  if (taps >> 31 != 0 || rows >> 31 != 0)
    throw Failure(Status::kUnsupported, "more than 2^31 taps or rows of a sampled tensor");
  const Buffer<std::int64_t> begin(rows + 1);
  PositionSort sorted(taps);
  if (taps > 0) {
    launch(write_rows, grid_for(ceil_div(taps, kThreads)), kThreads, 0, s, static_cast<std::uint32_t>(rows),
           sorted.keys());
    sorted.sort(static_cast<std::uint32_t>(rows));
  }
  launch(find_rows, grid_for(ceil_div(rows + 1, kThreads)), kThreads, 0, sorted.sorted_keys(), taps, rows,
         begin.data());
  launch(any_wide(a.points) ? scatter_weighted<double> : scatter_weighted<float>, grid_for(ceil_div(count, kThreads)),
         kThreads, 0, a, static_cast<const std::int64_t*>(begin.data()), sorted.positions());
}

void run_weighted_dot(const WeightedDotArgs& a) {
  const std::int64_t count = a.sums.batches * a.sums.points * a.sums.taps;
  if (count == 0) return;
  launch(any_wide(a.table) ? dot_weighted<double> : dot_weighted<float>, grid_for(ceil_div(count, kThreads)), kThreads,
         0, a);
}

}  // namespace binade::cuda
