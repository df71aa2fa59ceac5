#pragma once

#include "core/kernels/gemm.h"

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

/// Whether `offsets` (null: all 0) of `batch` products are evenly spaced, and by how much.
inline bool evenly_spaced(const std::int64_t* offsets, std::int64_t batch, std::int64_t& stride) {
  stride = offsets != nullptr && batch > 1 ? offsets[1] - offsets[0] : 0;
  for (std::int64_t i = 0; offsets != nullptr && i < batch; ++i)
    if (offsets[i] != i * stride) return false;
  return true;
}

}  // namespace binade::cuda
