#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "binade/core/dtype.h"

/// Arguments of the kernels that Tensor itself uses.
namespace binade {

/// Rows of elements in memory: element (r, c) at r * pitch + c.
template <class Data>
struct RowsOf {
  Data* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t pitch = 0;
};
using InputRows = RowsOf<const void>;
using OutputRows = RowsOf<void>;

/// `to` = `from`, each element rounded once to the dtype of `to`.
struct ConvertArgs {
  OutputRows to;
  InputRows from;
  std::int64_t rows = 0, cols = 0;
};
/// Every element of `to` = value, rounded once.
struct FillArgs {
  OutputRows to;
  double value = 0;
  std::int64_t rows = 0, cols = 0;
};
/// `into` += `from`, in float (double for f64), one rounding to the dtype of `into`. Floating dtypes.
struct AccumulateArgs {
  OutputRows into;
  InputRows from;
  std::int64_t rows = 0, cols = 0;
};
/// Observes `count` values of f32, f16 or bf16 as if a kernel had stored them (core/observation.h).
struct ObserveArgs {
  const void* values = nullptr;
  DType dtype = DType::f32;
  std::int64_t count = 0;
};

/// A copy of bytes.
struct MemoryCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};
/// Does all copies at once. No source overlaps another copy's destination. The span is in host memory.
struct CopyAllArgs {
  std::span<const MemoryCopy> copies{};
};

/// Converts a mask to additive values `to`, (rows, cols), contiguous, f32 or f64: a floating mask's values, or 0 where
/// a bool mask is true and -inf where it is false. The values are not observed: -inf is legal in a mask, and a mask is
/// not a result.
struct AdditiveMaskArgs {
  InputRows mask;
  OutputRows to;
  std::int64_t rows = 0, cols = 0;
};

}  // namespace binade
