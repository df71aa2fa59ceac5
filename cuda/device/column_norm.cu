#include <algorithm>
#include <bit>

#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/column_norm.cuh"
#include "binade/cuda/device/vector.cuh"

namespace binade::cuda {
namespace {

constexpr int kThreads = 128;
/// Number of blocks that must fit on a multiprocessor at once, if a thread has 96 registers. On the 132 multiprocessors
/// of a Hopper GPU, the two passes that store partial results then need only one wave of blocks.
constexpr int kResident = 5;
template <class T, int kBlocks = kResident>
constexpr int kResidentOf = sizeof(T) <= 4 ? kBlocks : 1;
/// Number of rows that a thread loads before it computes with the first of them.
template <class T>
constexpr int kAhead = sizeof(T) == 2 ? 2 : 1;

/// The part of a block that one thread processes: channels from `c` on, and rows begin + lane, begin + lane + lanes, …
/// of the tensor.
template <int V>
struct ThreadRange {
  std::int64_t c, vector, begin, end, stripe;  ///< vector: position of channel c in vectors (samples, cols)
  int lane;
  bool live;  ///< false: the thread has no channels or rows
  __device__ ThreadRange(const Columns& a, const ColumnCut& cut) {
    std::int64_t block = blockIdx.x;
    const std::int64_t tile = block % cut.tiles;
    block /= cut.tiles;
    stripe = block;  // counted over all samples
    const std::int64_t sample = block / cut.stripes, first = (block - sample * cut.stripes) * cut.rows_each;
    lane = static_cast<int>(threadIdx.x) / cut.across;
    c = (tile * cut.across + static_cast<int>(threadIdx.x) % cut.across) * V;
    live = lane < cut.lanes && c < a.cols;
    vector = sample * a.cols + c;
    begin = sample * a.rows + first;
    end = sample * a.rows + (first + cut.rows_each < a.rows ? first + cut.rows_each : a.rows);
  }
};

/// V neighboring values of a vector that has one value per channel; all are `otherwise` if the vector is null.
template <class C, int V>
struct Channels {
  C v[V];
  __device__ Channels(const void* vector, std::int64_t at, C otherwise) {
    if (vector != nullptr)
      load_vector<C>(vector, at, v);
    else {
#pragma unroll
      for (int e = 0; e < V; ++e) v[e] = otherwise;
    }
  }
  /// Loads the scale, multiplied by the weight unless the weight is null.
  __device__ Channels(const Columns& a, const ThreadRange<V>& at) : Channels(a.scale, at.vector, C(1)) {
    if (a.weight == nullptr) return;
    C weight[V];
    load_vector<C>(a.weight, at.c, weight);
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] *= weight[e];
  }
};

/// A thread's result for its channels: either mean and sum of squared deviations of `count` rows, or two sums. The size
/// of the struct is an odd number of words, so that neighboring structs in shared memory are in different banks.
template <class C, int V>
struct Pair {
  C first[V], second[V], count;
};

/// Merges the results of all lanes into lane 0, in a tree that halves the number of lanes in each step.
template <class P, class Merge>
__device__ void fold_lanes(P& mine, const ColumnCut& cut, Merge merge) {
  __shared__ P shared[kThreads];
  const int lane = static_cast<int>(threadIdx.x) / cut.across;
  int gap = 1;
  while (gap < cut.lanes) gap *= 2;
  for (gap /= 2; gap > 0; gap /= 2) {
    if (lane >= gap && lane < 2 * gap && lane < cut.lanes) shared[threadIdx.x] = mine;
    __syncthreads();
    if (lane < gap && lane + gap < cut.lanes) merge(mine, shared[static_cast<int>(threadIdx.x) + gap * cut.across]);
  }
}

/// Merges two sets of moments (Chan, Golub, LeVeque, 1983).
template <class C, int V>
__device__ __forceinline__ void merge_moments(Pair<C, V>& mine, const Pair<C, V>& other) {
  if (other.count == C(0)) return;
  const C total = mine.count + other.count, share = other.count / total, weight = mine.count * share;
#pragma unroll
  for (int e = 0; e < V; ++e) {
    const C difference = other.first[e] - mine.first[e];
    mine.first[e] += difference * share;
    mine.second[e] += other.second[e] + difference * difference * weight;
  }
  mine.count = total;
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads, kResidentOf<T>) moments(Columns a, ColumnCut cut, Compute<T>* parts) {
  using C = Compute<T>;
  constexpr int kRows = 4;  // rows held in registers: their mean is computed first, then their deviations from it
  const ThreadRange<V> at(a, cut);
  Pair<C, V> mine = {};
  C origin[V] = {};
  if (at.live) {
    // Values are relative to the stripe's first row, so that a large common offset costs no digits.
    load_vector<T>(a.x, at.begin * a.x_pitch + at.c, origin);
    for (std::int64_t row = at.begin + at.lane; row < at.end; row += kRows * cut.lanes) {
      RawVector<T, V> raw[kRows] = {};
#pragma unroll
      for (int k = 0; k < kRows; ++k)
        if (row + k * cut.lanes < at.end) raw[k] = fetch_vector<T, V>(a.x, (row + k * cut.lanes) * a.x_pitch + at.c);
      C x[kRows][V];
#pragma unroll
      for (int k = 0; k < kRows; ++k) unpack_vector<T, V>(raw[k], x[k]);
      const bool all = row + (kRows - 1) * cut.lanes < at.end;
      Pair<C, V> few;
      if (all) {
        few.count = C(kRows);
#pragma unroll
        for (int e = 0; e < V; ++e) {
          C sum{}, squares{};
#pragma unroll
          for (int k = 0; k < kRows; ++k) sum += x[k][e] - origin[e];
          const C mean = sum / C(kRows);
#pragma unroll
          for (int k = 0; k < kRows; ++k) squares += (x[k][e] - origin[e] - mean) * (x[k][e] - origin[e] - mean);
          few.first[e] = mean;
          few.second[e] = squares;
        }
        merge_moments(mine, few);
        continue;
      }
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        few.count = row + k * cut.lanes < at.end ? C(1) : C(0);
#pragma unroll
        for (int e = 0; e < V; ++e) {
          few.first[e] = x[k][e] - origin[e];
          few.second[e] = C(0);
        }
        merge_moments(mine, few);
      }
    }
  }
  fold_lanes(mine, cut, [](Pair<C, V>& into, const Pair<C, V>& from) { merge_moments(into, from); });
  if (!at.live || at.lane != 0) return;
  C* to = parts + at.stripe * kMomentParts * a.cols + at.c;
  store_vector<C>(to, 0, origin);
  store_vector<C>(to, a.cols, mine.first);
  store_vector<C>(to, 2 * a.cols, mine.second);
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads, kResidentOf<T>) apply(Columns a, ColumnCut cut, std::uint32_t* words) {
  using C = Compute<T>;
  constexpr int kRows = 2 * kAhead<T>;
  const ThreadRange<V> at(a, cut);
  AmaxObserver amax(words, a.dtype);
  if (at.live) {
    const Channels<C, V> mean(a.mean, at.vector, C(0)), scale(a, at), bias(a.bias, at.c, C(0));
    for (std::int64_t row = at.begin + at.lane; row < at.end; row += kRows * cut.lanes) {
      RawVector<T, V> x[kRows], r[kRows];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        if (row + k * cut.lanes >= at.end) break;
        x[k] = fetch_vector<T, V>(a.x, (row + k * cut.lanes) * a.x_pitch + at.c);
        if (a.residual != nullptr)
          r[k] = fetch_vector<T, V>(a.residual, (row + k * cut.lanes) * a.residual_pitch + at.c);
      }
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        if (row + k * cut.lanes >= at.end) break;
        C y[V], added[V];
        unpack_vector<T, V>(x[k], y);
        if (a.residual != nullptr) unpack_vector<T, V>(r[k], added);
#pragma unroll
        for (int e = 0; e < V; ++e) {
          C v = (y[e] - mean.v[e]) * scale.v[e] + bias.v[e];
          if (a.residual != nullptr) v += added[e];
          if (a.relu && v <= C(0)) v = C(0);  // a NaN stays, because the comparison is false
          amax.add(v);
          y[e] = v;
        }
        store_vector<T>(a.out, (row + k * cut.lanes) * a.out_pitch + at.c, y);
      }
    }
  }
  amax.publish();
}

/// The inputs of backward for one row, as they are stored.
template <class T, int V>
struct RawRow {
  RawVector<T, V> x, gy;
  __device__ void fetch(const Columns& a, std::int64_t row, std::int64_t c) {
    x = fetch_vector<T, V>(a.x, row * a.x_pitch + c);
    gy = fetch_vector<T, V>(a.gy, row * a.gy_pitch + c);
  }
};

/// Values of one row: gy after the ReLU's mask, and x - mean. The mask is computed from y if y is given. Otherwise the
/// value that `apply` compared with 0 is recomputed, with the same bits.
template <class T, int V>
struct Masked {
  using C = Compute<T>;
  C gy[V], centered[V];
  __device__ Masked(const Columns& a, const RawRow<T, V>& raw, std::int64_t row, std::int64_t c, const C (&mean)[V],
                    const C (&scale)[V], const C (&bias)[V]) {
    unpack_vector<T, V>(raw.x, centered);
    unpack_vector<T, V>(raw.gy, gy);
#pragma unroll
    for (int e = 0; e < V; ++e) centered[e] -= mean[e];
    if (!a.relu) return;
    C y[V];
    if (a.y != nullptr)
      load_vector<T>(a.y, row * a.y_pitch + c, y);
    else {
#pragma unroll
      for (int e = 0; e < V; ++e) y[e] = centered[e] * scale[e] + bias[e];
    }
#pragma unroll
    for (int e = 0; e < V; ++e) gy[e] = y[e] <= C(0) ? C(0) : gy[e];
  }
};

/// Calls f(row, RawRow) for this thread's rows; kAhead rows are loaded before the first is processed.
template <class T, int V, class F>
__device__ __forceinline__ void each_row(const Columns& a, const ColumnCut& cut, const ThreadRange<V>& at, F&& f) {
  for (std::int64_t row = at.begin + at.lane; row < at.end; row += kAhead<T> * cut.lanes) {
    RawRow<T, V> raw[kAhead<T>];
#pragma unroll
    for (int k = 0; k < kAhead<T>; ++k)
      if (row + k * cut.lanes < at.end) raw[k].fetch(a, row + k * cut.lanes, at.c);
#pragma unroll
    for (int k = 0; k < kAhead<T>; ++k)
      if (row + k * cut.lanes < at.end) f(row + k * cut.lanes, raw[k]);
  }
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads, kResidentOf<T>) gradient_sums(Columns a, ColumnCut cut, Compute<T>* parts) {
  using C = Compute<T>;
  const ThreadRange<V> at(a, cut);
  Pair<C, V> mine = {};
  if (at.live) {
    const Channels<C, V> mean(a.mean, at.vector, C(0)), scale(a, at), bias(a.bias, at.c, C(0));
    each_row<T, V>(a, cut, at, [&](std::int64_t row, const RawRow<T, V>& raw) {
      const Masked<T, V> m(a, raw, row, at.c, mean.v, scale.v, bias.v);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        mine.first[e] += m.gy[e];
        mine.second[e] += m.gy[e] * m.centered[e];
      }
    });
  }
  fold_lanes(mine, cut, [](Pair<C, V>& into, const Pair<C, V>& from) {
#pragma unroll
    for (int e = 0; e < V; ++e) {
      into.first[e] += from.first[e];
      into.second[e] += from.second[e];
    }
  });
  if (!at.live || at.lane != 0) return;
  C* to = parts + at.stripe * kSumParts * a.cols + at.c;
  store_vector<C>(to, 0, mine.first);
  store_vector<C>(to, a.cols, mine.second);
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads, kResidentOf<T, 4>)
    gradient_apply(Columns a, ColumnCut cut, std::uint32_t* words) {
  using C = Compute<T>;
  const ThreadRange<V> at(a, cut);
  AmaxObserver amax(words, a.dtype);
  if (at.live) {
    const Channels<C, V> mean(a.mean, at.vector, C(0)), scale(a, at), bias(a.bias, at.c, C(0));
    const Channels<C, V> slope(a.slope, at.vector, C(0)), center(a.center, at.vector, C(0)),
        constant(a.constant, at.vector, C(0));
    each_row<T, V>(a, cut, at, [&](std::int64_t row, const RawRow<T, V>& raw) {
      const Masked<T, V> m(a, raw, row, at.c, mean.v, scale.v, bias.v);
      if (a.out != nullptr) {
        C gx[V];
#pragma unroll
        for (int e = 0; e < V; ++e) {
          gx[e] = (m.gy[e] - center.v[e]) * scale.v[e] + (m.centered[e] * slope.v[e] + constant.v[e]);
          amax.add(gx[e]);
        }
        store_vector<T>(a.out, row * a.out_pitch + at.c, gx);
      }
      if (a.gr != nullptr) {
#pragma unroll
        for (int e = 0; e < V; ++e) amax.add(m.gy[e]);
        store_vector<T>(a.gr, row * a.cols + at.c, m.gy);
      }
    });
  }
  amax.publish();
}

/// Calls f(TypeTag<T>, std::integral_constant<int, V>) for the dtype of `a` and the vector size of `cut`, if there are
/// rows.
template <class F>
void with_columns(const Columns& a, const ColumnCut& cut, F&& f) {
  if (a.samples * cut.stripes > 0) with_vectors(a.dtype, cut.packed, f);
}

constexpr std::int64_t kLeastEach = 4;  // fewest rows per thread that are worth the start of a block

/// Cuts the rows into stripes a quarter as long, for kernels that only apply a norm and store no partial sum per
/// stripe, so that more stripes add no work. Shorter blocks end at more nearly the same time, and the GPU idles less at
/// the end of the launch.
ColumnCut shorter(const Columns& a, ColumnCut cut) {
  cut.rows_each = std::max<std::int64_t>(kLeastEach * cut.lanes, ceil_div(cut.rows_each, 4));
  cut.stripes = ceil_div(a.rows, cut.rows_each);
  return cut;
}

unsigned blocks_of(const Columns& a, const ColumnCut& cut) {
  return static_cast<unsigned>(a.samples * cut.stripes * cut.tiles);
}

}  // namespace

ColumnCut cut_columns(const Columns& a) {
  constexpr std::int64_t kMostAcross = 32, kBlocks = kResident * 132, kMostEach = 512;
  ColumnCut cut;
  cut.packed = a.dtype != DType::f64 && a.cols % kPack == 0 && packs_rows(a.x, a.dtype, a.x_pitch) &&
               packs_rows(a.residual, a.dtype, a.residual_pitch) && packs_rows(a.out, a.dtype, a.out_pitch) &&
               packs_rows(a.y, a.dtype, a.y_pitch) && packs_rows(a.gy, a.dtype, a.gy_pitch) &&
               packs_rows(a.gr, a.dtype, 0) && packs_rows(a.mean, DType::f32, 0) &&
               packs_rows(a.scale, DType::f32, 0) && packs_rows(a.weight, DType::f32, 0) &&
               packs_rows(a.bias, DType::f32, 0);
  const std::int64_t vectors = cut.packed ? a.cols / kPack : a.cols;
  cut.tiles = ceil_div(vectors, kMostAcross);
  cut.across = static_cast<int>(ceil_div(vectors, cut.tiles));
  cut.lanes = kThreads / cut.across;
  // The wanted number of blocks is the number that a Hopper GPU runs at once. A thread gets enough rows to outweigh the
  // cost of the final fold, but not so many that float sums lose digits. If it would get too many, twice (three times,
  // …) as many blocks are used.
  const std::int64_t wanted = std::max<std::int64_t>(1, kBlocks / (cut.tiles * std::max<std::int64_t>(1, a.samples)));
  const std::int64_t times = std::max<std::int64_t>(1, ceil_div(a.rows, wanted * kMostEach * cut.lanes));
  cut.rows_each = std::max(ceil_div(a.rows, wanted * times), kLeastEach * cut.lanes);
  cut.stripes = ceil_div(a.rows, cut.rows_each);
  return cut;
}

void column_moments(const Columns& a, const ColumnCut& cut, void* parts) {
  with_columns(a, cut, [&]<class T, int V>(TypeTag<T>, std::integral_constant<int, V>) {
    launch(moments<T, V>, blocks_of(a, cut), kThreads, 0, a, cut, static_cast<Compute<T>*>(parts));
  });
}
void column_apply(const Columns& a, const ColumnCut& whole) {
  const ColumnCut cut = shorter(a, whole);
  with_columns(a, cut, [&]<class T, int V>(TypeTag<T>, std::integral_constant<int, V>) {
    launch(apply<T, V>, blocks_of(a, cut), kThreads, 0, a, cut, context().amax_words);
  });
}
void column_gradient_sums(const Columns& a, const ColumnCut& cut, void* parts) {
  with_columns(a, cut, [&]<class T, int V>(TypeTag<T>, std::integral_constant<int, V>) {
    launch(gradient_sums<T, V>, blocks_of(a, cut), kThreads, 0, a, cut, static_cast<Compute<T>*>(parts));
  });
}
void column_gradient_apply(const Columns& a, const ColumnCut& whole) {
  const ColumnCut cut = shorter(a, whole);
  if (a.out == nullptr && a.gr == nullptr) return;
  with_columns(a, cut, [&]<class T, int V>(TypeTag<T>, std::integral_constant<int, V>) {
    launch(gradient_apply<T, V>, blocks_of(a, cut), kThreads, 0, a, cut, context().amax_words);
  });
}

}  // namespace binade::cuda
