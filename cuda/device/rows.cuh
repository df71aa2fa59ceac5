#pragma once

#include <algorithm>
#include <bit>

#include "binade/cuda/device/thread_group.cuh"
#include "binade/cuda/device/vector.cuh"

/// Code by which the threads of a group process a row, in vectors of V contiguous elements: V is 8, in 16-byte
/// accesses, or 1. Each thread keeps up to H vectors in registers from the first pass to the second. If H is 0, the
/// second pass reads the row again.
namespace binade::cuda {

/// Calls f(column, index of the vector among the thread's vectors) for this thread's vectors of a row.
template <int V, int H, class C, class F>
__device__ __forceinline__ void each_vector(const ThreadGroup<C>& group, std::int64_t cols, F&& f) {
  if constexpr (H > 0) {
#pragma unroll
    for (int k = 0; k < H; ++k) {
      const std::int64_t c = static_cast<std::int64_t>(k * group.width() + group.rank()) * V;
      if (c < cols) f(c, k);
    }
  } else {
    for (std::int64_t c = static_cast<std::int64_t>(group.rank()) * V; c < cols;
         c += static_cast<std::int64_t>(group.width()) * V)
      f(c, 0);
  }
}

/// The number of threads of a block, and the number of threads that process a row together.
struct RowGroups {
  int threads, width;
  int count() const { return threads / width; }
};

/// Returns groups of at most a warp for rows of `vectors` vectors, in blocks of 128 threads.
inline RowGroups small_groups(std::int64_t vectors) {
  const auto width = static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(vectors, 1, 32))));
  return {128, width};
}
/// Returns one group per block, for rows of `vectors` vectors, of which each thread processes `held`.
inline RowGroups block_group(std::int64_t vectors, int held) {
  const auto threads = static_cast<int>(ceil_div(ceil_div(vectors, held), kWarp) * kWarp);
  return {threads, threads};
}

/// Load and store V contiguous elements (8 in 16-byte accesses, or 1) of a dtype known at run time.
template <int V, class C>
__device__ __forceinline__ void load_vector(const In& x, std::int64_t i, C (&to)[V]) {
  if constexpr (V == kPack)
    load_pack(x.data, x.dtype, i, to);
  else
    to[0] = load_at<C>(x, i);
}
template <int V, class C>
__device__ __forceinline__ void store_vector(const Out& y, std::int64_t i, const C (&from)[V]) {
  if constexpr (V == kPack)
    store_pack(y.data, y.dtype, i, from);
  else
    store_at(y.data, y.dtype, i, from[0]);
}

/// Shape of a launch over rows of `cols` elements: whether they are read in packs, whether threads hold their vectors
/// in registers, and the thread groups.
struct RowLaunch {
  static constexpr int kHeld = 4;  ///< vectors that a thread keeps in registers
  bool packed, held;
  RowGroups groups;

  RowLaunch(std::int64_t cols, bool may_pack) : packed(may_pack && cols % kPack == 0) {
    const std::int64_t vectors = packed ? cols / kPack : cols;
    held = packed && vectors <= 512 * kHeld;
    if (held)
      groups = vectors <= kWarp * kHeld ? small_groups(vectors) : block_group(vectors, kHeld);
    else if (packed)
      groups = {1024, 1024};
    else
      groups = cols <= 1024 ? small_groups(cols) : block_group(std::min<std::int64_t>(cols, 16384), 16);
  }
};

}  // namespace binade::cuda
