#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/column_fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/rows.cuh"

namespace binade::cuda {
namespace {

/// The division of the rows into stripes, by sizes alone. One block processes a stripe, and stores the stripe's part of
/// gw and gb.
struct Stripes {
  std::int64_t rows = 0, rows_each = 1;
  std::int64_t count() const { return ceil_div(rows, rows_each); }
};

/// Returns as many stripes as a Hopper GPU runs blocks at once (four on each of 132 multiprocessors). The number of
/// rows of a stripe is a multiple of the number of thread groups in a block, and large enough that the stripe's part of
/// gw and gb is small in comparison.
Stripes stripes_of(std::int64_t rows, int groups) {
  constexpr std::int64_t kStripes = 4 * 132;
  return {rows, std::max<std::int64_t>(std::max(8, 4 * groups), ceil_div(ceil_div(rows, kStripes), groups) * groups)};
}

constexpr int kSharedCols = 1024;

/// Adds the groups' sums in order, through shared memory, and stores them in the stripe's row of parts (2, cols).
template <class C, int V, int H>
__device__ void store_partial_sums(const ThreadGroup<C>& group, std::int64_t cols, const C (&gw)[H][V],
                                   const C (&gb)[H][V], C* to) {
  if (group.count() == 1) {
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      store_vector<C>(to, c, gw[k]);
      store_vector<C>(to, cols + c, gb[k]);
    });
    return;
  }
  __shared__ C sums[2 * kSharedCols];
  for (int turn = 0; turn < group.count(); ++turn) {
    if (group.index() == turn)
      each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          sums[c + e] = (turn > 0 ? sums[c + e] : C(0)) + gw[k][e];
          sums[kSharedCols + c + e] = (turn > 0 ? sums[kSharedCols + c + e] : C(0)) + gb[k][e];
        }
      });
    __syncthreads();
  }
  for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    to[c] = sums[c];
    to[cols + c] = sums[kSharedCols + c];
  }
}

/// The number of blocks of 128 threads that must fit on a multiprocessor: four if a thread holds at most three vectors
/// of 16-bit values.
template <class T, int H>
constexpr int kResident = H == 0 || H == 2          ? 1
                          : H < 4 && sizeof(T) == 2 ? 4
                                                    : 3;

/// Computes gx of a stripe's rows. If H > 0 and `parts` is not null, also computes the stripe's part of gw and gb,
/// which each thread sums for its own columns. Between the two passes over a row, the values stay in registers as they
/// were read.
template <class T, int V, int H>
__global__ void __launch_bounds__(H == 0   ? 1024
                                  : H == 2 ? 512
                                           : 128,
                                  kResident<T, H>)
    backward_rows(RowNormBackward a, Stripes stripes, int width, Compute<T>* parts, std::uint32_t* words) {
  using C = Compute<T>;
  constexpr int kKept = H > 0 ? H : 1;
  __shared__ C scratch[ThreadGroup<C>::kScratch];
  ThreadGroup<C> group(width, scratch);
  AmaxObserver amax(words, a.dtype);
  const std::int64_t begin = blockIdx.x * stripes.rows_each;
  const std::int64_t end = begin + stripes.rows_each < a.rows ? begin + stripes.rows_each : a.rows;
  C gw[kKept][V] = {}, gb[kKept][V] = {};
  for (std::int64_t first = begin; first < end; first += group.count()) {
    const std::int64_t row = first + group.index();
    const bool live = row < end;
    const std::int64_t cols = live ? a.cols : 0;  // a group without a row still takes part in the sums of the others
    const C mean = live && a.mean != nullptr ? static_cast<const C*>(a.mean)[row] : C(0);
    const C rstd = live ? static_cast<const C*>(a.rstd)[row] : C(0);
    RawVector<T, V> raw_h[kKept], raw_gy[kKept];
    const auto fetch = [&](std::int64_t c, int k) {
      raw_h[k] = fetch_vector<T, V>(a.h, row * a.h_pitch + c);
      raw_gy[k] = fetch_vector<T, V>(a.gy, row * a.cols + c);
    };
    const auto normalized = [&](int k, C(&xhat)[V], C(&g)[V]) {
      unpack_vector<T, V>(raw_h[k], xhat);
      unpack_vector<T, V>(raw_gy[k], g);
#pragma unroll
      for (int e = 0; e < V; ++e) xhat[e] = (xhat[e] - mean) * rstd;
    };
    const auto weigh = [&](std::int64_t c, C(&g)[V]) {
      if (a.weight == nullptr) return;
      C w[V];
      load_vector<C>(a.weight, c, w);
#pragma unroll
      for (int e = 0; e < V; ++e) g[e] *= w[e];
    };

    if constexpr (H > 0) each_vector<V, H>(group, cols, fetch);
    C sums[2] = {};  // sum of g, sum of g xhat
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      if constexpr (H == 0) fetch(c, k);
      C xhat[V], g[V];
      normalized(k, xhat, g);
      if constexpr (H > 0) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          gw[k][e] += g[e] * xhat[e];
          gb[k][e] += g[e];
        }
      }
      weigh(c, g);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        sums[0] += g[e];
        sums[1] += g[e] * xhat[e];
      }
    });
    group.sum(sums);
    if (a.gx == nullptr) continue;
    const C mean_g = a.rms ? C(0) : sums[0] / static_cast<C>(a.cols), mean_gx = sums[1] / static_cast<C>(a.cols);
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      if constexpr (H == 0) fetch(c, k);
      C gx[V], xhat[V], g[V];
      normalized(k, xhat, g);
      weigh(c, g);
#pragma unroll
      for (int e = 0; e < V; ++e) gx[e] = (g[e] - mean_g - xhat[e] * mean_gx) * rstd;
      if (a.gh != nullptr) {
        C gh[V];
        load_vector<T>(a.gh, row * a.cols + c, gh);
#pragma unroll
        for (int e = 0; e < V; ++e) gx[e] += gh[e];
      }
#pragma unroll
      for (int e = 0; e < V; ++e) amax.add(gx[e]);
      store_vector<T>(a.gx, row * a.cols + c, gx);
    });
  }
  if constexpr (H > 0)
    if (parts != nullptr) store_partial_sums<C, V, H>(group, a.cols, gw, gb, parts + blockIdx.x * 2 * a.cols);
  amax.publish();
}

constexpr int kSumColumns = 32;  // columns that one block sums

/// Computes the parts of gw and gb of one stripe, for rows that backward_rows cannot sum.
template <class T>
__global__ void sum_columns(RowNormBackward a, Stripes stripes, Compute<T>* parts) {
  using C = Compute<T>;
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(kSumColumns) + threadIdx.x;
  const std::int64_t begin = blockIdx.y * stripes.rows_each;
  const std::int64_t end = begin + stripes.rows_each < a.rows ? begin + stripes.rows_each : a.rows;
  C sums[2] = {};  // sums for gw and gb
  if (c < a.cols)
    for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      const C mean = a.mean != nullptr ? static_cast<const C*>(a.mean)[row] : C(0);
      const C rstd = static_cast<const C*>(a.rstd)[row];
      const C dy = load_at<C>(a.gy, kDTypeOf<T>, row * a.cols + c);
      sums[0] += dy * ((load_at<C>(a.h, kDTypeOf<T>, row * a.h_pitch + c) - mean) * rstd);
      sums[1] += dy;
    }
  fold<kSumColumns>(sums);
  if (c >= a.cols || threadIdx.y != 0) return;
  C* to = parts + blockIdx.y * 2 * a.cols;
  to[c] = sums[0];
  to[a.cols + c] = sums[1];
}

/// Adds the parts of all stripes to gw and gb.
template <class C>
__global__ void combine(const C* parts, std::int64_t stripes, std::int64_t cols, C* gw, C* gb) {
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(kFoldColumns) + threadIdx.x;
  C sum[1] = {};
  if (c < 2 * cols) {
#pragma unroll 4
    for (std::int64_t s = threadIdx.y; s < stripes; s += kFoldRows) sum[0] += parts[s * 2 * cols + c];
  }
  fold(sum);
  if (c >= 2 * cols || threadIdx.y != 0) return;
  C* to = c < cols ? gw : gb;
  if (to != nullptr) to[c < cols ? c : c - cols] = sum[0];
}

template <class T, int V, int H>
void start(const RowNormBackward& a, Stripes stripes, RowGroups groups, Compute<T>* parts) {
  if (stripes.count() == 0) return;
  launch(backward_rows<T, V, H>, static_cast<unsigned>(stripes.count()), static_cast<unsigned>(groups.threads), 0, a,
         stripes, groups.width, parts, context().amax_words);
}

template <class T>
void backward(const RowNormBackward& a) {
  using C = Compute<T>;
  constexpr std::int64_t kHeld = 4, kMostFused = 512 * 2;
  constexpr bool kPacks = !std::is_same_v<T, double>;
  const std::int64_t vectors = a.cols / kPack;
  const bool packed = kPacks && a.cols % kPack == 0 && packs_rows(a.h, a.dtype, a.h_pitch) &&
                      packs_rows(a.gy, a.dtype, a.cols) && packs_rows(a.gh, a.dtype, a.cols) &&
                      packs_rows(a.gx, a.dtype, a.cols) && packs_rows(a.weight, DType::f32, 0);
  const bool sums = a.gw != nullptr || a.gb != nullptr, fused = packed && vectors <= kMostFused;
  const RowGroups groups = !packed                    ? a.cols <= 1024 ? small_groups(a.cols) : RowGroups{512, 512}
                                              : vectors <= kWarp * kHeld ? small_groups(vectors)
                           : fused                    ? block_group(vectors, 2)
                                                      : RowGroups{1024, 1024};
  const Stripes stripes = stripes_of(a.rows, groups.count());
  const Buffer<C> parts(sums ? stripes.count() * 2 * a.cols : 0);
  if constexpr (kPacks) {
    if (packed && vectors <= kWarp)
      start<T, kPack, 1>(a, stripes, groups, parts.data());
    else if (packed && vectors > kWarp * 2 && vectors <= kWarp * 3)
      start<T, kPack, 3>(a, stripes, groups, parts.data());
    else if (packed && vectors > kWarp * 3 && vectors <= kWarp * kHeld)
      start<T, kPack, kHeld>(a, stripes, groups, parts.data());
    else if (fused)
      start<T, kPack, 2>(a, stripes, groups, parts.data());
    else if (packed && a.gx != nullptr)
      start<T, kPack, 0>(a, stripes, groups, nullptr);
  }
  if (!packed && a.gx != nullptr) start<T, 1, 0>(a, stripes, groups, nullptr);
  if (!sums) return;
  if (!fused && stripes.count() > 0)
    launch(sum_columns<T>, dim3(fold_grid(a.cols, kSumColumns), static_cast<unsigned>(stripes.count())),
           fold_block(kSumColumns), 0, a, stripes, parts.data());
  launch(combine<C>, fold_grid(2 * a.cols), fold_block(), 0, parts.data(), stripes.count(), a.cols,
         static_cast<C*>(a.gw), static_cast<C*>(a.gb));
}

}  // namespace

void run_row_norm_backward(const RowNormBackward& call) {
  if (call.cols == 0) return;
  with_type(call.dtype, [&]<class T>(TypeTag<T>) { backward<T>(call); });
}

}  // namespace binade::cuda
