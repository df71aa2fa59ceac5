#pragma once

#include "binade/core/tensor_kernels.h"

namespace binade::cuda {

/// TensorKernels (core/tensor_kernels.h) as calls.
struct ConvertCall {
  TensorRows to, from;
  std::int64_t rows = 0, cols = 0;
};
struct FillCall {
  TensorRows to;
  double value = 0;
  std::int64_t rows = 0, cols = 0;
};
struct AccumulateCall {
  TensorRows into, from;
  std::int64_t rows = 0, cols = 0;
};
struct ObserveCall {
  const void* values = nullptr;
  DType dtype = DType::f32;
  std::int64_t count = 0;
};

/// The span lies in the host's memory, what it names in the device's.
struct CopyAllCall {
  std::span<const MemoryCopy> copies;
};

}  // namespace binade::cuda
