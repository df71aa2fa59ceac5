#pragma once

#include <cmath>

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"

/// Rounding, signs and replacement of NaN and infinity: ops of one input x whose result y is exact, from RareUnaryOps
/// (lists.h). Except in nan_to_num, NaN gives NaN. Whole numbers are rounded to themselves.
namespace binade::ops {

namespace detail {
/// Returns `info` with the fields that these ops share.
constexpr OpInfo rounding_info(OpInfo info) {
  info.numerics = kRoundedOnce;
  return unary_info(info);
}
}  // namespace detail

/// y = 1 for x > 0, -1 for x < 0, and x for 0 and NaN. gx = 0.
struct Sign : Unary<Sign> {
  static constexpr OpInfo info = detail::rounding_info(OpInfo{.name = "sign"});
  static constexpr Saves saves = Saves::kNothing;
  using Exact = exact::Sign;
  BINADE_HD static double value(double x, const Params&) { return x > 0 ? 1 : x < 0 ? -1 : x; }
  BINADE_HD static double gradient(double, double, const Params&) { return 0; }
};

/// y = the largest integer <= x. gx = 0.
struct Floor : Unary<Floor> {
  static constexpr OpInfo info = detail::rounding_info(OpInfo{.name = "floor"});
  static constexpr Saves saves = Saves::kNothing;
  using Exact = exact::Same;
  BINADE_HD static double value(double x, const Params&) { return std::floor(x); }
  BINADE_HD static double gradient(double, double, const Params&) { return 0; }
};

/// y = the smallest integer >= x. gx = 0.
struct Ceil : Unary<Ceil> {
  static constexpr OpInfo info = detail::rounding_info(OpInfo{.name = "ceil"});
  static constexpr Saves saves = Saves::kNothing;
  using Exact = exact::Same;
  BINADE_HD static double value(double x, const Params&) { return std::ceil(x); }
  BINADE_HD static double gradient(double, double, const Params&) { return 0; }
};

/// y = x without its fraction. gx = 0.
struct Trunc : Unary<Trunc> {
  static constexpr OpInfo info = detail::rounding_info(OpInfo{.name = "trunc"});
  static constexpr Saves saves = Saves::kNothing;
  using Exact = exact::Same;
  BINADE_HD static double value(double x, const Params&) { return std::trunc(x); }
  BINADE_HD static double gradient(double, double, const Params&) { return 0; }
};

/// y = the nearest integer; the even one if two are equally near. gx = 0.
struct Round : Unary<Round> {
  static constexpr OpInfo info = detail::rounding_info(OpInfo{.name = "round"});
  static constexpr Saves saves = Saves::kNothing;
  using Exact = exact::Same;
  BINADE_HD static double value(double x, const Params&) { return std::rint(x); }
  BINADE_HD static double gradient(double, double, const Params&) { return 0; }
};

/// y = x - trunc(x), with the sign of x; NaN for infinite x. gx = gy.
struct Frac : Unary<Frac> {
  static constexpr OpInfo info = detail::rounding_info(OpInfo{.name = "frac"});
  static constexpr Saves saves = Saves::kNothing;
  BINADE_HD static double value(double x, const Params&) { return x - std::trunc(x); }
  BINADE_HD static double gradient(double, double gy, const Params&) { return gy; }
};

/// y = x with NaN, inf and -inf replaced by the numbers `nan`, `posinf` and `neginf`. gx = gy if x is finite, else
/// 0.
struct NanToNum : Unary<NanToNum> {
  struct Params {
    double nan = 0, posinf = 0, neginf = 0;
  };
  static constexpr OpInfo info = detail::rounding_info(OpInfo{.name = "nan_to_num"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params& p) {
    return x != x ? p.nan : x - x == 0 ? x : x > 0 ? p.posinf : p.neginf;
  }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return x - x == 0 ? gy : 0; }
};

}  // namespace binade::ops
