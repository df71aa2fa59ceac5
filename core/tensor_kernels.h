#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "binade/core/dtype.h"
#include "binade/core/kernel_slot.h"

namespace binade {

/// Rows of elements in memory: element (r, c) at r * pitch + c.
struct TensorRows {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t pitch = 0;
};

/// Bytes and where a copy of them belongs.
struct MemoryCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

/// What Tensor itself does with values, on one device.
struct TensorKernels {
  /// `to` = `from`, each element rounded once to the dtype of `to`.
  void (*convert)(const TensorRows& to, const TensorRows& from, std::int64_t rows, std::int64_t cols) = nullptr;
  /// Every element of `to` = value, rounded once.
  void (*fill)(const TensorRows& to, double value, std::int64_t rows, std::int64_t cols) = nullptr;
  /// `into` += `from`, in float (double for f64), one rounding to the dtype of `into`. Floating dtypes.
  void (*accumulate)(const TensorRows& into, const TensorRows& from, std::int64_t rows, std::int64_t cols) = nullptr;
  /// Reads `count` values of f32, f16 or bf16 as if a kernel had stored them (core/observation.h).
  void (*observe)(const void* values, DType dtype, std::int64_t count) = nullptr;
  /// All of them at once; none lies where another belongs.
  void (*copy_all)(std::span<const MemoryCopy>) = nullptr;
};

KernelSlot<TensorKernels>& tensor_kernels();
void register_tensor_kernels_cpu();

}  // namespace binade
