#pragma once

#include "binade/core/kernels/gemm.h"

namespace binade::cuda {

/// GemmKernels (core/kernels/gemm.h) as calls; a product's is cpu::GemmArgs itself, its offsets lying on the host.
struct ColumnSumsCall {
  const void* x = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, row = 0;
  void* sums = nullptr;
};
struct ActivationBackwardCall {
  Activation activation = Activation::kNone;
  DType dtype = DType::f32;
  const void* z = nullptr;
  const void* gy = nullptr;
  void* gz = nullptr;
  std::int64_t rows = 0, columns = 0;
  void* sums = nullptr;  ///< of gz's columns; null: not wanted
};

/// Whether a GELU, or its slope, belongs into the library's product: cuBLASLt fuses it on Hopper and on the Blackwell
/// of data centers; elsewhere it is a kernel of the library's own behind the product, slower than ours (llm.c's pull
/// requests 338 and 653, SGLang's 34350). `capability`: 10 major + minor.
constexpr bool gelu_is_fused(int capability) { return capability >= 90 && capability < 120; }

/// Whether `offsets` (null: all 0) of `batch` products are evenly spaced, and by how much.
inline bool evenly_spaced(const std::int64_t* offsets, std::int64_t batch, std::int64_t& stride) {
  stride = offsets != nullptr && batch > 1 ? offsets[1] - offsets[0] : 0;
  for (std::int64_t i = 0; offsets != nullptr && i < batch; ++i)
    if (offsets[i] != i * stride) return false;
  return true;
}

}  // namespace binade::cuda
