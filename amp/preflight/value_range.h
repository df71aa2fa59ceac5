#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "binade/core/dtype.h"

namespace binade::amp {

/// `x` as a tensor of `dtype` holds it.
double rounded(double x, DType dtype);

/// The values that a tensor can hold whatever the weights and the batch are; an infinite end: no bound is known.
/// Bounds are rounded as the values are: a sigmoid reaches 0 and 1, and 0 + 1e-8 is 0 in f16.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::int64_t peaks = 0;  ///< > 0: the values lie in so many groups, each of which attains `high` (x - max(x))

  bool contains(double x) const { return low <= x && x <= high; }
};

/// The smallest range that holds both. Its groups are unknown.
ValueRange hull(const ValueRange& a, const ValueRange& b);
ValueRange rounded(const ValueRange& range, DType dtype);

/// Interval arithmetic for the ops of two inputs: "add", "sub", "mul", "div", "maximum", "minimum".
ValueRange combine(std::string_view op, const ValueRange& a, const ValueRange& b);

/// Of sums of `terms` numbers, in `sums` sums.
ValueRange range_of_sum(const ValueRange& term, std::int64_t terms, std::int64_t sums);

}  // namespace binade::amp
