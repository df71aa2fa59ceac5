#pragma once

#include <bit>

#include "binade/core/dtype.h"
#include "binade/cuda/device/fold.cuh"

/// Observes the values that kernels store (core/observation.h): each thread keeps the bits of the largest magnitude in
/// a register, the warp combines them, and one atomic maximum per warp updates device memory. A maximum does not depend
/// on order.
namespace binade::cuda {

/// Observes the values that one thread stores with dtype `stored`. Doubles and integers are not observed.
class AmaxObserver {
 public:
  /// `words`: Context::amax_words; if it is null, values are not observed.
  __device__ AmaxObserver(std::uint32_t* words, DType stored) : words_(words), stored_(stored) {}

  __device__ void add(float x) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    largest_ = magnitude > largest_ ? magnitude : largest_;
  }
  __device__ void add(double x) { add(static_cast<float>(x)); }

  /// Adds this thread's maximum to `words`. Every thread of the block must call publish(), at the same place, after its
  /// last value.
  __device__ void publish() const {
    if (words_ == nullptr || stored_ > DType::bf16) return;
    const std::uint32_t largest = fold_warp<LargerWord>(largest_);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    if (thread % 32 != 0) return;
    std::uint32_t* word = words_ + (stored_ == DType::f32 ? 1 : 0);
    // Most warps have no larger value, and a plain read saves them the atomic operation.
    if (largest > *static_cast<volatile std::uint32_t*>(word)) atomicMax(word, largest);
  }

 private:
  std::uint32_t* words_;       // largest magnitudes so far, in 16 bits and in f32
  DType stored_;               // dtype in which the values are stored
  std::uint32_t largest_ = 1;  // not 0, which means "not observed": a kernel may store only zeros
};

}  // namespace binade::cuda
