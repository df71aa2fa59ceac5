#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

namespace binade {

/// y = the sum (divided by `divisor`) or the largest of x over some dimensions. x is described as groups of neighboring
/// dimensions that are all reduced or all kept, outermost first; y has the kept ones, contiguous. If x is a channel
/// slice, its last dimension is a separate group, and rows are `pitch` elements apart; otherwise `pitch` is 0.
struct ReduceArgs {
  static constexpr int kMaxGroups = 8;
  bool largest = false;  ///< true: the largest element; false: the sum
  double divisor = 1;
  const std::int64_t* count = nullptr;  ///< divisor in device memory; null: `divisor`
  In x{};
  Out y{};
  int groups = 0;
  std::int64_t extents[kMaxGroups] = {};
  bool reduced[kMaxGroups] = {};
  std::int64_t pitch = 0;
};

/// out = x equals y ? g : 0, NaN being equal to NaN
struct MaxGradientArgs {
  Walk walk{};
  In in[3]{};  ///< x, y, g
  Out out{};
};

namespace cpu {

/// Serial reductions of one level. Accumulators are float, or double if x is f64.
struct ReduceLoops {
  /// *result = the reduction of n contiguous elements.
  void (*run)(In x, std::int64_t n, void* result);
  /// result[c] = the reduction of column c < cols over `rows` rows, `pitch` elements apart.
  void (*rows)(In x, std::int64_t rows, std::int64_t pitch, std::int64_t cols, void* result);
  /// a[i] = the reduction of a[i] and b[i]; of type double or float.
  void (*combine)(void* a, const void* b, std::int64_t n, bool is_double);
};

/// Loops of one level.
struct ReductionKernels {
  ReduceLoops sum;
  ReduceLoops max;
  /// gx[i] = x[i] equals y[i * y_step] (NaN equals NaN) ? g[i * g_step] : 0.
  void (*max_gradient)(In x, In y, std::int64_t y_step, In g, std::int64_t g_step, Out gx, std::int64_t n);
};

}  // namespace cpu
}  // namespace binade
