#pragma once

#include <cuda_runtime.h>

#include <limits>

#include "binade/cuda/device/context.cuh"

/// Combines values over the threads of a warp or block, always in the same tree. Adding, Largest and LargerWord say how
/// two values are combined.
namespace binade::cuda {

/// Sum.
struct Adding {
  template <class C>
  static constexpr C kStart = C(0);
  template <class C>
  __device__ static C combine(C a, C b) {
    return a + b;
  }
};

/// Maximum; NaN if any value is NaN.
struct Largest {
  template <class C>
  static constexpr C kStart = -std::numeric_limits<C>::infinity();
  template <class C>
  __device__ static C combine(C best, C x) {
    const C kept = x <= best ? best : x;  // a NaN in x is taken
    return best != best ? best : kept;    // and one in best is kept
  }
};

/// Maximum of magnitudes as bits: infinity and NaN are the largest.
struct LargerWord {
  __device__ static std::uint32_t combine(std::uint32_t a, std::uint32_t b) { return a > b ? a : b; }
};

/// Returns the combination of `x` over `width` neighboring lanes (a power of two), the same in all of them.
template <class R, class C>
__device__ __forceinline__ C fold_warp(C x, int width = kWarp) {
  for (int distance = width / 2; distance > 0; distance /= 2)
    x = R::combine(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

/// Returns the combination of `x` over a one-dimensional block of `kThreads` (a multiple of 32), the same in all
/// threads.
template <class R, int kThreads, class C>
__device__ __forceinline__ C fold_block(C x) {
  constexpr int kWarps = kThreads / kWarp;
  static_assert(kThreads % kWarp == 0 && kWarps <= kWarp);
  __shared__ C warp_results[kWarps];
  x = fold_warp<R>(x);
  if (threadIdx.x % kWarp == 0) warp_results[threadIdx.x / kWarp] = x;
  __syncthreads();
  C all = warp_results[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) all = R::combine(all, warp_results[w]);
  __syncthreads();  // the next call writes to warp_results
  return all;
}

}  // namespace binade::cuda
