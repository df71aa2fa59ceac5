#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "binade/core/dtype.h"
#include "binade/core/ops/op.h"

namespace binade::conformance {

/// Returns the distance between neighboring numbers of `dtype` around `value`.
inline double ulp_of(double value, DType dtype) {
  const DTypeRange range = range_of(dtype);
  int exponent = 0;
  std::frexp(std::max(std::abs(value), range.smallest_normal), &exponent);
  return std::ldexp(1.0, exponent - 1 - range.mantissa_bits);
}

/// Returns the largest magnitude that rounds to a finite number of `dtype`.
inline double overflow_of(DType dtype) {
  const DTypeRange range = range_of(dtype);
  return range.largest + ulp_of(range.largest, dtype) / 2;
}

/// Returns the error that an op's contract allows: a number of ulps of the exact result. An op that sums n terms with
/// magnitudes |ab| may add n 2^-24 sum |ab|.
inline double bound_of(const Numerics& numerics, DType dtype, double exact, double terms, double magnitude) {
  if (!std::isfinite(exact)) return 0;
  const double ulp = is_half(dtype) ? numerics.ulp_half : numerics.ulp_f32;
  const double sum = terms * 0x1p-24 * magnitude;
  return ulp * ulp_of(exact, dtype) + (std::isfinite(sum) ? sum : 0);
}

/// Returns true if `got` differs from `exact`, rounded to `dtype`, by at most `bound`. NaN and infinities must be
/// equal.
inline bool agrees(double got, double exact, double bound, DType dtype) {
  if (std::isnan(exact)) return std::isnan(got);
  if (std::isinf(exact)) return got == exact;
  if (std::isinf(got)) return (got > 0) == (exact > 0) && std::abs(exact) + bound >= overflow_of(dtype);
  return std::abs(got - exact) <= bound;
}

/// The largest error of a comparison, divided by the allowed error. If BINADE_ERROR_SIZES is set, the destructor
/// prints it: "error size OP DTYPE SHARE".
class ErrorSize {
 public:
  ErrorSize(std::string_view op, DType dtype) : op_(op), dtype_(dtype) {}
  ~ErrorSize() {
    static const bool is_wanted = std::getenv("BINADE_ERROR_SIZES") != nullptr;
    if (is_wanted) fmt::print("error size {} {} {:.3g}\n", op_, name_of(dtype_), share_);
  }
  ErrorSize(const ErrorSize&) = delete;
  ErrorSize& operator=(const ErrorSize&) = delete;

  void add(double got, double exact, double bound) {
    const double error = std::abs(got - exact);
    if (std::isfinite(error) && error > 0) share_ = std::max(share_, bound > 0 ? error / bound : HUGE_VAL);
  }

 private:
  std::string_view op_;
  DType dtype_;
  double share_ = 0;
};

}  // namespace binade::conformance
