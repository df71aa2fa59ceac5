#pragma once

#include "binade/core/kernels/conv.h"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/vector.cuh"

/// Code that Binade's convolution kernels share. 16 steps of the summed dimension k are in shared memory at a time, and
/// each of 256 threads keeps a small block of sums. Inputs are widened to f32 (f64 stays f64), and the terms of a sum
/// are added one after the other in the order of k.
namespace binade::cuda {

/// Compute a convolution, or the gradient of its weights, with Binade's kernels, for any sizes. REQUIRES that the
/// result is not empty, and for the gradient that there are pixels. Largest magnitudes of results are recorded in
/// `words`, unless it is null.
void own_conv(const ConvArgs& a, std::uint32_t* words);
void own_conv_weight(const ConvWeightArgs& a);

/// A contiguous copy of the pixels of a channel slice, since libraries support few slices. Contiguous pixels are not
/// copied.
class ContiguousPixels {
 public:
  ContiguousPixels(const void* pixels, DType dtype, std::int64_t count, std::int64_t channels, std::int64_t pitch);
  bool is_copy() const { return copy_.data() != nullptr; }
  void* data() const { return is_copy() ? copy_.data() : const_cast<void*>(pixels_); }
  /// Copies the slice to data(), if that is a copy.
  void copy_in() const;
  /// Copies data() back to the slice, if it is a copy.
  void copy_out() const;

 private:
  const void* pixels_;
  std::size_t width_, pitch_, count_;  // bytes, bytes, pixels
  Buffer<char> copy_;
};

}  // namespace binade::cuda

namespace binade::cuda::conv {

inline constexpr int kThreads = 256;  ///< threads of a block
inline constexpr int kDepth = 16;     ///< steps of k in shared memory
/// A coordinate so far outside of every image that adding the offset of a filter tap leaves it outside.
inline constexpr std::int64_t kNowhere = std::int64_t{-1} << 60;

/// kPer contiguous values, which are loaded in one access if they fit into it.
template <class T, int kPer>
struct alignas(sizeof(T) * kPer) Run {
  T x[kPer];
};

/// Loads the kPer values at `from`, or zeros if `in_range` is false.
template <int kPer, class T, class C>
__device__ __forceinline__ void load_run(const T* from, bool in_range, C (&x)[kPer]) {
  if (in_range) {
    const Run<T, kPer> run = *reinterpret_cast<const Run<T, kPer>*>(from);
#pragma unroll
    for (int i = 0; i < kPer; ++i) x[i] = static_cast<C>(widened(run.x[i]));
  } else {
#pragma unroll
    for (int i = 0; i < kPer; ++i) x[i] = C(0);
  }
}

/// Returns true if 0 <= i < extent.
__device__ __forceinline__ bool inside(std::int64_t i, std::int64_t extent) {
  return static_cast<std::uint64_t>(i) < static_cast<std::uint64_t>(extent);
}

/// sums += a b over the kDepth steps of one chunk; a thread's rows and columns are contiguous.
template <int kRows, int kColumns, int kM, int kN, class C>
__device__ __forceinline__ void multiply(const C (&a)[kDepth][kM], const C (&b)[kDepth][kN], int row, int column,
                                         C (&sums)[kRows][kColumns]) {
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    C x[kRows], y[kColumns];
#pragma unroll
    for (int i = 0; i < kRows; ++i) x[i] = a[k][row + i];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) y[j] = b[k][column + j];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[i][j] += x[i] * y[j];
    }
  }
}

/// Returns true if pixels `pitch` elements apart may be read four values at a time.
inline bool in_fours(const void* data, DType dtype, std::int64_t pitch) {
  const std::size_t bytes = is_half(dtype) ? 8 : 16;
  return dtype != DType::f64 && pitch % 4 == 0 && reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

}  // namespace binade::cuda::conv
