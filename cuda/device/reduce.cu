#include <algorithm>
#include <optional>

#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"
#include "binade/cuda/device/rows.cuh"

/// Reductions. One group of dimensions is reduced at a time, from the innermost outwards, with partial results in f32
/// (f64 for f64). The work is cut into chunks by sizes alone, so the same shape gives the same bits.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFew = 16;                         // a single thread reduces at most this many elements to a result
constexpr std::int64_t kRowChunk = 1 << 14;      // elements of a row that one block reduces
constexpr std::int64_t kLongRowChunk = 1 << 17;  // the same number, if there are enough rows for all blocks
constexpr std::int64_t kWarpRow = 1024;          // longest row that one warp reduces
constexpr std::int64_t kWantedBlocks = 1024;

/// The input as a tensor (outer, reduced, inner), whose element (o, r, i) is at o * outer_stride + r * stride + i.
struct View {
  In x;
  std::int64_t outer, reduced, inner;
  std::int64_t outer_stride, stride;
};

/// The destination (outer, inner). Each of its elements is divided once and rounded once.
struct Result {
  Out y;
  double divisor;
  const std::int64_t* count;  ///< the divisor, if not null
  std::uint32_t* words;
};

/// Stores kTogether contiguous results: 8 in 16-byte accesses, or 1.
template <class C, int kTogether>
__device__ __forceinline__ void store_result(const Result& to, std::int64_t i, C (&x)[kTogether], AmaxObserver& amax) {
  const C divisor = to.count != nullptr ? static_cast<C>(*to.count) : static_cast<C>(to.divisor);
#pragma unroll
  for (int k = 0; k < kTogether; ++k) {
    if (divisor != C(1)) x[k] = x[k] / divisor;
    amax.add(x[k]);
  }
  store_vector(to.y, i, x);
}

/// Reduces few elements per result, with one thread per result.
template <class R, class C, int kTogether>
__global__ void reduce_few(View v, Result to) {
  AmaxObserver amax(to.words, to.y.dtype);
  const std::int64_t across = v.inner / kTogether;
  each_index(v.outer * across, [&](std::int64_t t) {
    const std::int64_t o = t / across, i = (t - o * across) * kTogether;
    C sum[kTogether], x[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) sum[k] = R::template kStart<C>;
#pragma unroll 4
    for (std::int64_t r = 0; r < v.reduced; ++r) {
      load_vector(v.x, o * v.outer_stride + r * v.stride + i, x);
#pragma unroll
      for (int k = 0; k < kTogether; ++k) sum[k] = R::combine(sum[k], x[k]);
    }
    store_result(to, o * v.inner + i, sum, amax);
  });
  amax.publish();
}

/// Reduces the elements of a row that thread t of `threads` processes. The row has `count` contiguous elements.
template <class R, int kTogether, class C>
__device__ __forceinline__ C share_of_row(const In& x, std::int64_t start, int count, int t, int threads) {
  C sum[kTogether], y[kTogether];
#pragma unroll
  for (int k = 0; k < kTogether; ++k) sum[k] = R::template kStart<C>;
  const int whole = count / kTogether;
#pragma unroll 4
  for (int p = t; p < whole; p += threads) {
    load_vector(x, start + static_cast<std::int64_t>(p) * kTogether, y);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) sum[k] = R::combine(sum[k], y[k]);
  }
  for (int i = whole * kTogether + t; i < count; i += threads) sum[0] = R::combine(sum[0], load_at<C>(x, start + i));
#pragma unroll
  for (int distance = kTogether / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int k = 0; k < distance; ++k) sum[k] = R::combine(sum[k], sum[k + distance]);
  }
  return sum[0];
}

/// Reduces short rows (inner == 1), with one warp per row.
template <class R, class C, int kTogether>
__global__ void __launch_bounds__(kThreads) reduce_short_rows(View v, Result to) {
  AmaxObserver amax(to.words, to.y.dtype);
  constexpr int kRows = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (std::int64_t o = blockIdx.x * static_cast<std::int64_t>(kRows) + threadIdx.x / kWarp; o < v.outer;
       o += static_cast<std::int64_t>(gridDim.x) * kRows) {
    C all[1] = {
        fold_warp<R>(share_of_row<R, kTogether, C>(v.x, o * v.outer_stride, static_cast<int>(v.reduced), lane, kWarp))};
    if (lane == 0) store_result(to, o, all, amax);
  }
  amax.publish();
}

/// Reduces long rows (inner == 1), with one block per chunk of `length` elements. y is (outer, chunks).
template <class R, class C, int kTogether>
__global__ void __launch_bounds__(kThreads) reduce_rows(View v, std::int64_t chunks, std::int64_t length, Result to) {
  AmaxObserver amax(to.words, to.y.dtype);
  for (std::int64_t b = blockIdx.x; b < v.outer * chunks; b += gridDim.x) {
    const std::int64_t o = b / chunks, first = (b - o * chunks) * length;
    const int count = static_cast<int>(v.reduced - first < length ? v.reduced - first : length);
    C all[1] = {fold_block<R, kThreads>(share_of_row<R, kTogether, C>(v.x, o * v.outer_stride + first, count,
                                                                      static_cast<int>(threadIdx.x), kThreads))};
    if (threadIdx.x == 0) store_result(to, b, all, amax);
  }
  amax.publish();
}

/// Reduces if inner > 1. A block has blockDim.x threads along `inner` and blockDim.y along the reduced dimension. y is
/// (outer, chunks, inner), and a chunk has `rows` reduced elements.
template <class R, class C, int kTogether>
__global__ void __launch_bounds__(kThreads) reduce_columns(View v, std::int64_t chunks, std::int64_t rows, Result to) {
  __shared__ C partial[kThreads * kTogether];
  AmaxObserver amax(to.words, to.y.dtype);
  const int wide = static_cast<int>(blockDim.x) * kTogether, high = static_cast<int>(blockDim.y);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const std::int64_t slices = (v.inner + wide - 1) / wide;
  for (std::int64_t b = blockIdx.x; b < v.outer * chunks * slices; b += gridDim.x) {
    const std::int64_t group = b / slices, i = (b - group * slices) * wide + x * kTogether;
    const std::int64_t o = group / chunks, first = (group - o * chunks) * rows;
    const std::int64_t end = first + rows < v.reduced ? first + rows : v.reduced;
    C sum[kTogether], next[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) sum[k] = R::template kStart<C>;
    if (i < v.inner) {
#pragma unroll 4
      for (std::int64_t r = first + y; r < end; r += high) {
        load_vector(v.x, o * v.outer_stride + r * v.stride + i, next);
#pragma unroll
        for (int k = 0; k < kTogether; ++k) sum[k] = R::combine(sum[k], next[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) partial[(y * kTogether + k) * static_cast<int>(blockDim.x) + x] = sum[k];
    for (int distance = high / 2; distance > 0; distance /= 2) {
      __syncthreads();
      if (y < distance)
        for (int k = 0; k < kTogether; ++k) {
          C& mine = partial[(y * kTogether + k) * static_cast<int>(blockDim.x) + x];
          mine = R::combine(mine, partial[((y + distance) * kTogether + k) * static_cast<int>(blockDim.x) + x]);
        }
    }
    if (y == 0 && i < v.inner) {
#pragma unroll
      for (int k = 0; k < kTogether; ++k) sum[k] = partial[k * static_cast<int>(blockDim.x) + x];
      store_result(to, group * v.inner + i, sum, amax);
    }
    __syncthreads();
  }
  amax.publish();
}

/// The way in which one group of dimensions is reduced, and the sizes of its launch.
struct Plan {
  enum class How { kFew, kShortRows, kRows, kColumns } how = How::kFew;
  bool packed = false;
  std::int64_t chunks = 1, length = 0;  ///< partial results per result, of `length` elements each
  unsigned wide = 1, high = 1;          ///< extents of a block that reduces columns
};

unsigned power_of_two_from(std::int64_t x, unsigned most) {
  unsigned p = 1;
  while (p < most && p < x) p *= 2;
  return p;
}

Plan plan_of(const View& v, const Out& y) {
  Plan plan;
  const auto packs_at = [](std::int64_t multiple) { return multiple % kPack == 0; };
  plan.packed = packs(v.x.data, v.x.dtype) && (v.outer == 1 || packs_at(v.outer_stride));
  if (v.inner == 1 && v.stride == 1 && v.reduced > kFew) {
    plan.how = v.reduced <= kWarpRow ? Plan::How::kShortRows : Plan::How::kRows;
    plan.length = v.outer < kWantedBlocks ? kRowChunk : kLongRowChunk;
    plan.chunks = ceil_div(v.reduced, plan.length);
    return plan;
  }
  plan.packed = plan.packed && packs(y.data, y.dtype) && packs_at(v.inner) && (v.reduced == 1 || packs_at(v.stride));
  if (v.reduced <= kFew) return plan;
  const int pack_size = plan.packed ? kPack : 1;
  plan.how = Plan::How::kColumns;
  plan.wide = power_of_two_from(ceil_div(v.inner, pack_size), kWarp);
  plan.high = std::min(kThreads / plan.wide, power_of_two_from(ceil_div(v.reduced, 4), kThreads));
  const std::int64_t slices = ceil_div(v.inner, static_cast<std::int64_t>(plan.wide) * pack_size);
  const std::int64_t wanted = std::max<std::int64_t>(1, kWantedBlocks / std::max<std::int64_t>(1, v.outer * slices));
  const std::int64_t high = plan.high;
  plan.length = std::clamp(ceil_div(v.reduced, wanted), 4 * high, 64 * high);  // 4 to 64 elements per thread
  plan.chunks = ceil_div(v.reduced, plan.length);
  return plan;
}

template <class R, class C, int kTogether>
void start(const View& v, const Plan& plan, const Result& to) {
  switch (plan.how) {
    case Plan::How::kFew:
      return launch(reduce_few<R, C, kTogether>, grid_for(ceil_div(v.outer * v.inner, kThreads * kTogether)), kThreads,
                    0, v, to);
    case Plan::How::kShortRows:
      return launch(reduce_short_rows<R, C, kTogether>, grid_for(ceil_div(v.outer, kThreads / kWarp)), kThreads, 0, v,
                    to);
    case Plan::How::kRows:
      return launch(reduce_rows<R, C, kTogether>, grid_for(v.outer * plan.chunks), kThreads, 0, v, plan.chunks,
                    plan.length, to);
    case Plan::How::kColumns: break;
  }
  const std::int64_t slices = ceil_div(v.inner, static_cast<std::int64_t>(plan.wide) * kTogether);
  launch(reduce_columns<R, C, kTogether>, grid_for(v.outer * plan.chunks * slices), dim3(plan.wide, plan.high), 0, v,
         plan.chunks, plan.length, to);
}

template <class R>
void start(const View& v, const Plan& plan, const Result& to) {
  if (v.x.dtype == DType::f64)
    start<R, double, 1>(v, plan, to);
  else if (plan.packed)
    start<R, float, kPack>(v, plan, to);
  else
    start<R, float, 1>(v, plan, to);
}

/// The tensor after some groups of dimensions were reduced: its values and its remaining groups.
struct RemainingReduction {
  In x;
  int groups;
  std::int64_t extents[ReduceArgs::kMaxGroups];
  bool reduced[ReduceArgs::kMaxGroups];
  std::int64_t pitch;  ///< of a channel slice; 0: contiguous

  std::int64_t extent_of(int begin, int end) const {
    std::int64_t extent = 1;
    for (int g = begin; g < end; ++g) extent *= extents[g];
    return extent;
  }
  /// Returns the index of the innermost group that is still to be reduced, or -1 if there is none.
  int next() const {
    int g = groups - 1;
    while (g >= 0 && !reduced[g]) --g;
    return g;
  }
  View view(int g) const {
    const int last = groups - 1;
    if (g < 0) {  // no group is left to reduce: copies, divides and rounds
      const std::int64_t cols = pitch > 0 ? extents[last] : extent_of(0, groups);
      return {x, pitch > 0 ? extent_of(0, last) : 1, 1, cols, pitch, cols};
    }
    const std::int64_t outer = extent_of(0, g), count = extents[g], inner = extent_of(g + 1, groups);
    if (pitch > 0 && g == last) return {x, outer, count, 1, pitch, 1};
    const std::int64_t stride = pitch > 0 ? pitch : inner;
    return {x, outer, count, inner, count * stride, stride};
  }
  void remove(int g) {
    for (int i = g; i + 1 < groups; ++i) {
      extents[i] = extents[i + 1];
      reduced[i] = reduced[i + 1];
    }
    --groups;
  }
};

template <class R>
void reduce(const ReduceArgs& call) {
  RemainingReduction rest{.x = call.x, .groups = call.groups, .extents = {}, .reduced = {}, .pitch = call.pitch};
  std::copy_n(call.extents, call.groups, rest.extents);
  std::copy_n(call.reduced, call.groups, rest.reduced);
  const DType accumulate = accumulate_dtype(call.x.dtype);
  const Result last{call.y, call.divisor, call.count, call.largest ? nullptr : context().amax_words};
  std::optional<Buffer<std::byte>> partial[2];  // two buffers of partial results, read and written alternately
  for (int turn = 0;; turn ^= 1) {
    const int g = rest.next();
    const View v = rest.view(g);
    if (v.outer * v.inner == 0) return;
    const Plan plan = plan_of(v, call.y);
    if (plan.chunks > 1)
      rest.extents[g] = plan.chunks;
    else if (g >= 0)
      rest.remove(g);
    if (rest.next() < 0) return start<R>(v, plan, last);
    partial[turn].emplace(v.outer * plan.chunks * v.inner * static_cast<std::int64_t>(size_of(accumulate)));
    start<R>(v, plan, {{partial[turn]->data(), accumulate}, 1, nullptr, nullptr});
    rest.x = {partial[turn]->data(), accumulate};
    rest.pitch = 0;
  }
}

struct WhereEqual {
  template <class C>
  __device__ C operator()(const C (&x)[3], std::int64_t) const {
    const bool both_nan = x[0] != x[0] && x[1] != x[1];
    return x[0] == x[1] || both_nan ? x[2] : C(0);
  }
};

}  // namespace

void run_reduce(const ReduceArgs& call) { call.largest ? reduce<Largest>(call) : reduce<Adding>(call); }

void run_max_gradient(const MaxGradientArgs& call) { map<3>(WhereEqual{}, call.in, call.out, call.walk); }

}  // namespace binade::cuda
