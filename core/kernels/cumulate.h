#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

/// Cumulative sums, products and extremes along the middle axis of tensors (outer, count, inner).
namespace binade {

enum class Cumulation : std::uint8_t { kSum, kProduct, kLogSumExp };

/// y[o, j, i] = the sum (product, log of the sum of exponentials) of x[o, 0 … j, i], in double, rounded once. x and y
/// have one dtype: f32, f16, bf16 or f64; for sums and products also i64, which wraps. If `reverse`: over x[o, j …, i].
struct CumulateArgs {
  Cumulation how = Cumulation::kSum;
  bool reverse = false;
  std::int64_t outer = 1, count = 0, inner = 1;
  In x{};
  Out y{};
};

/// The gradient of a cumulative product or log-sum-exp, all of one floating dtype.
struct CumulateGradientArgs {
  Cumulation how = Cumulation::kProduct;
  std::int64_t outer = 1, count = 0, inner = 1;
  In x{}, y{}, gy{};
  Out gx{};
};

/// index[o, j, i] = the position of the largest (smallest) element of x[o, 0 … j, i], the last one of equal elements.
/// NaN counts as the largest and as the smallest. x: f32, f64, i64, i32, u8 or bool.
struct CumulativeExtremeArgs {
  bool largest = true;
  std::int64_t outer = 1, count = 0, inner = 1;
  In x{};
  std::int64_t* index = nullptr;
};

}  // namespace binade
