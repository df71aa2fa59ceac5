#pragma once

#include <cstdint>

#include "binade/core/kernels/run.h"

namespace binade::cpu {

/// One level's serial reductions. Accumulators are float, double where x is f64.
struct ReduceLoops {
  /// *result = the reduction of n elements side by side.
  void (*run)(In x, std::int64_t n, void* result);
  /// result[c] = the reduction over `rows` rows, `pitch` elements apart, of column c < cols.
  void (*rows)(In x, std::int64_t rows, std::int64_t pitch, std::int64_t cols, void* result);
  /// a[i] = the reduction of a[i] and b[i]; of type double or float.
  void (*combine)(void* a, const void* b, std::int64_t n, bool is_double);
};

struct ReductionKernels {
  ReduceLoops sum;
  ReduceLoops max;
  /// gx[i] = x[i] equals y[i * y_step] (NaN equals NaN) ? g[i * g_step] : 0.
  void (*max_gradient)(In x, In y, std::int64_t y_step, In g, std::int64_t g_step, Out gx, std::int64_t n);
};

}  // namespace binade::cpu
