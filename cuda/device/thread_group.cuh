#pragma once

#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/value.cuh"

/// A group of threads that process one row together: 1, 2, 4, … or 32 threads of a warp, or the whole block. Sums over
/// a group are added in a tree that depends on the number of its threads alone, and every thread of the group receives
/// the same bits.
namespace binade::cuda {

/// This thread's group; a block of `blockDim.x` threads is divided into groups of `width`. All threads of a block must
/// create one and take part in every sum, whether or not their group has a row.
template <class C>
class ThreadGroup {
 public:
  static constexpr int kMost = 2;                          ///< most values that are summed at a time
  static constexpr int kWarpsMost = 32;                    ///< most warps of a block
  static constexpr int kScratch = 2 * kWarpsMost * kMost;  ///< number of values

  /// `scratch`: shared memory of kScratch values, used if a group is larger than a warp.
  __device__ ThreadGroup(int width, C* scratch)
      : width_(width),
        rank_(static_cast<int>(threadIdx.x) % width),
        index_(static_cast<int>(threadIdx.x) / width),
        scratch_(scratch) {}

  __device__ int width() const { return width_; }  ///< number of threads in the group
  __device__ int rank() const { return rank_; }    ///< index of this thread in its group
  __device__ int index() const { return index_; }  ///< index of the group in its block
  /// Returns the number of groups in the block.
  __device__ int count() const { return static_cast<int>(blockDim.x) / width_; }

  /// Calls f(row, number of its columns) for this group's rows. A group without a row is called with 0 columns.
  template <class F>
  __device__ __forceinline__ void each_row(std::int64_t rows, std::int64_t cols, F&& f) const {
    for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * count(); first < rows;
         first += static_cast<std::int64_t>(gridDim.x) * count())
      f(first + index_, first + index_ < rows ? cols : 0);
  }

  /// Replaces every x[i] by its sum over the group.
  template <int n>
  __device__ void sum(C (&x)[n]) {
    fold<Adding>(x);
  }
  /// Like sum(), for any way R to combine values (cuda/device/fold.cuh).
  template <class R, int n>
  __device__ void fold(C (&x)[n]) {
    static_assert(n <= kMost);
#pragma unroll
    for (int i = 0; i < n; ++i) x[i] = fold_warp<R>(x[i], width_ < 32 ? width_ : 32);
    if (width_ <= 32) return;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    C* sums = scratch_ + turn_ * kWarpsMost * kMost;  // two sets, used alternately: one barrier per sum is enough
    turn_ ^= 1;
    if (lane == 0) {
#pragma unroll
      for (int i = 0; i < n; ++i) sums[warp * kMost + i] = x[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < n; ++i)
      x[i] = fold_warp<R>(lane < width_ / 32 ? sums[lane * kMost + i] : R::template kStart<C>);
  }

 private:
  int width_, rank_, index_;
  int turn_ = 0;  // half of the scratch memory that the next sum uses
  C* scratch_;
};

}  // namespace binade::cuda
