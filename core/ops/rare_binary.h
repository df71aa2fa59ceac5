#pragma once

#include <cmath>

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"

/// Elementwise ops of two inputs a and b from RareBinaryOps (lists.h), broadcast as in binary.h, computed in double for
/// every stored dtype and rounded once. ga, gb and gy are the gradients of the loss with respect to a, b and the result
/// y. A NaN in a or b gives NaN, unless said otherwise. With whole numbers, the ops that divide throw ArgumentError for
/// a divisor of 0.
namespace binade::ops {

namespace detail {
/// Returns `info` with the fields that these ops share.
constexpr OpInfo rare_binary_info(OpInfo info) {
  const PrecisionClass precision = info.precision == PrecisionClass::kFull ? info.precision : PrecisionClass::kWidest;
  info = binary_info(info);
  info.precision = precision;
  info.numerics.ulp_f32 = info.numerics.ulp_half = kUlpFromDouble;
  return info;
}
/// Returns a / b rounded down, corrected for the rounding of a / b.
BINADE_HD double floor_of_quotient(double a, double b) {
  if (b == 0) return a / b;
  const double remainder = std::fmod(a, b), quotient = (a - remainder) / b;
  const double below = remainder != 0 && (b < 0) != (remainder < 0) ? quotient - 1 : quotient;
  return below == 0 ? std::copysign(0.0, a / b) : std::rint(below);
}
/// Returns a - b floor(a / b), with the sign of b.
BINADE_HD double remainder_of(double a, double b) {
  const double remainder = std::fmod(a, b);
  return remainder != 0 && (b < 0) != (remainder < 0) ? remainder + b : remainder;
}
}  // namespace detail

/// y = the angle of the point (b, a), in [-pi, pi]. ga = gy b / (a^2 + b^2), gb = -gy a / (a^2 + b^2), 0 at the origin.
struct Atan2 : Binary<Atan2> {
  static constexpr OpInfo info = detail::rare_binary_info(
      OpInfo{.name = "atan2", .singularities = {{.input = 0, .at = 0, .derivative_only = true}}});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = Reads::kBoth;
  BINADE_HD static double value(double a, double b, const Params&) { return std::atan2(a, b); }
  BINADE_HD static double gradient_a(double a, double b, double gy, const Params&) { return gy * b / divisor(a, b); }
  BINADE_HD static double gradient_b(double a, double b, double gy, const Params&) { return -gy * a / divisor(a, b); }

 private:
  BINADE_HD static double divisor(double a, double b) { return a == 0 && b == 0 ? 1 : a * a + b * b; }
};

/// y = a^b; NaN for a negative a with a fractional b, and, unlike C's pow, wherever a or b is NaN. ga = gy b a^(b - 1),
/// 0 for b = 0; gb = gy y log(a), 0 for a = 0 <= b. A precision policy gives f32.
struct TensorPow : Binary<TensorPow> {
  static constexpr OpInfo info = detail::rare_binary_info(
      OpInfo{.name = "tensor_pow", .precision = PrecisionClass::kFull, .singularities = {{.input = 0, .at = 0}}});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = Reads::kBoth;
  BINADE_HD static double value(double a, double b, const Params&) { return a != a || b != b ? a + b : std::pow(a, b); }
  BINADE_HD static double gradient_a(double a, double b, double gy, const Params&) {
    return b == 0 ? 0 : gy * b * std::pow(a, b - 1);
  }
  BINADE_HD static double gradient_b(double a, double b, double gy, const Params&) {
    return a == 0 && b >= 0 ? 0 : gy * std::pow(a, b) * std::log(a);
  }
};

/// y = a - b trunc(a / b), with the sign of a; NaN for b = 0. ga = gy, gb = -gy trunc(a / b).
struct Fmod : Binary<Fmod> {
  static constexpr OpInfo info = detail::rare_binary_info(
      OpInfo{.name = "fmod", .singularities = {{.input = 1, .at = 0}}});
  static constexpr Reads a_reads = Reads::kNone, b_reads = Reads::kBoth;
  using Exact = exact::Fmod;
  BINADE_HD static double value(double a, double b, const Params&) { return std::fmod(a, b); }
  BINADE_HD static double gradient_a(double, double, double gy, const Params&) { return gy; }
  BINADE_HD static double gradient_b(double a, double b, double gy, const Params&) { return -gy * std::trunc(a / b); }
};

/// y = a - b floor(a / b), with the sign of b, like Python's %; NaN for b = 0. ga = gy, gb = -gy floor(a / b).
struct Remainder : Binary<Remainder> {
  static constexpr OpInfo info = detail::rare_binary_info(
      OpInfo{.name = "remainder", .singularities = {{.input = 1, .at = 0}}});
  static constexpr Reads a_reads = Reads::kNone, b_reads = Reads::kBoth;
  using Exact = exact::Remainder;
  BINADE_HD static double value(double a, double b, const Params&) { return detail::remainder_of(a, b); }
  BINADE_HD static double gradient_a(double, double, double gy, const Params&) { return gy; }
  BINADE_HD static double gradient_b(double a, double b, double gy, const Params&) {
    return -gy * detail::floor_of_quotient(a, b);
  }
};

/// y = floor(a / b); infinite or NaN for b = 0. The gradients are 0.
struct FloorDivide : Binary<FloorDivide> {
  static constexpr OpInfo info = detail::rare_binary_info(
      OpInfo{.name = "floor_divide", .singularities = {{.input = 1, .at = 0}}});
  static constexpr Reads a_reads = Reads::kNone, b_reads = Reads::kNone;
  using Exact = exact::FloorDivide;
  BINADE_HD static double value(double a, double b, const Params&) { return detail::floor_of_quotient(a, b); }
  BINADE_HD static double gradient_a(double, double, double, const Params&) { return 0; }
  BINADE_HD static double gradient_b(double, double, double, const Params&) { return 0; }
};

/// y = sqrt(a^2 + b^2) without overflow of the squares. ga = gy a / y, gb = gy b / y, 0 at the origin.
struct Hypot : Binary<Hypot> {
  static constexpr OpInfo info = detail::rare_binary_info(OpInfo{.name = "hypot"});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = Reads::kBoth;
  BINADE_HD static double value(double a, double b, const Params&) {
    return a != a || b != b ? a + b : std::hypot(a, b);
  }
  BINADE_HD static double gradient_a(double a, double b, double gy, const Params&) {
    return a == 0 ? 0 * gy : gy * (a / std::hypot(a, b));
  }
  BINADE_HD static double gradient_b(double a, double b, double gy, const Params&) {
    return b == 0 ? 0 * gy : gy * (b / std::hypot(a, b));
  }
};

/// y = |a| with the sign of b, also if b is -0 or NaN. ga = gy if a has the sign of b, else -gy; 0 for a = 0.
/// gb = 0.
struct Copysign : Binary<Copysign> {
  static constexpr OpInfo info = detail::rare_binary_info(OpInfo{.name = "copysign"});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = Reads::kNone;
  BINADE_HD static double value(double a, double b, const Params&) { return std::copysign(a, b); }
  BINADE_HD static double gradient_a(double a, double b, double gy, const Params&) {
    return a == 0 ? 0 : std::signbit(a) == std::signbit(b) ? gy : -gy;
  }
  BINADE_HD static double gradient_b(double, double, double, const Params&) { return 0; }
};

/// y = log(exp(a) + exp(b)) without overflow. ga = gy sigmoid(a - b), gb = gy sigmoid(b - a).
struct LogAddExp : Binary<LogAddExp> {
  static constexpr OpInfo info = detail::rare_binary_info(
      OpInfo{.name = "logaddexp", .precision = PrecisionClass::kFull});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = Reads::kBoth;
  BINADE_HD static double value(double a, double b, const Params&) {
    return a == b ? a + 0.69314718055994530942 : math::maximum(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
  }
  BINADE_HD static double gradient_a(double a, double b, double gy, const Params&) {
    return a == b ? 0.5 * gy : gy * math::sigmoid(a - b);
  }
  BINADE_HD static double gradient_b(double a, double b, double gy, const Params&) {
    return a == b ? 0.5 * gy : gy * math::sigmoid(b - a);
  }
};

/// y = a log(b), 0 for a = 0 even if log(b) is infinite or undefined. ga = gy log(b), 0 for a = 0 >= b; gb = gy a / b,
/// 0 for a = 0.
struct Xlogy : Binary<Xlogy> {
  static constexpr OpInfo info = detail::rare_binary_info(
      OpInfo{.name = "xlogy", .precision = PrecisionClass::kFull, .singularities = {{.input = 1, .at = 0}}});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = Reads::kBoth;
  BINADE_HD static double value(double a, double b, const Params&) { return a == 0 && b == b ? 0 : a * std::log(b); }
  BINADE_HD static double gradient_a(double a, double b, double gy, const Params&) {
    return a == 0 && b <= 0 ? 0 : gy * std::log(b);
  }
  BINADE_HD static double gradient_b(double a, double b, double gy, const Params&) {
    return a == 0 && b == b ? 0 : gy * a / b;
  }
};

/// y = a for a > 0, else b a, with learned slopes b that broadcast: one, or one per channel (He et al., 2015). If a >
/// 0, b is not read. ga = gy, or gy b; gb = 0, or gy a.
struct Prelu : Binary<Prelu> {
  static constexpr OpInfo info = detail::rare_binary_info(OpInfo{.name = "prelu"});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = Reads::kBoth;
  BINADE_HD static double value(double a, double b, const Params&) { return a > 0 ? a : b * a; }
  BINADE_HD static double gradient_a(double a, double b, double gy, const Params&) { return a > 0 ? gy : gy * b; }
  BINADE_HD static double gradient_b(double a, double, double gy, const Params&) { return a > 0 ? 0 : gy * a; }
};

/// y = sign(a) (|a| / b)^(p - 1), 0 for b = 0: the derivative of a norm b with respect to its element a (fold.h). For
/// p = 1 it does not depend on b, and is finite for a finite a even if b is NaN.
struct NormSlope : Binary<NormSlope> {
  struct Params {
    double p = 2;
  };
  static constexpr OpInfo info = detail::rare_binary_info(OpInfo{.name = "norm_slope"});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = Reads::kBoth;
  BINADE_HD static double value(double a, double b, const Params& p) {
    if (a != a) return a;  // pow(NaN, 0) is 1
    if (b == 0) return 0;
    if (p.p == 2) return a / b;
    return a == 0 && p.p == 1 ? 0 : std::copysign(std::pow(std::fabs(a) / b, p.p - 1), a);
  }
  BINADE_HD static double gradient_a(double a, double b, double gy, const Params& p) {
    return b == 0 || p.p == 1 ? 0 : gy * (p.p - 1) * std::pow(std::fabs(a) / b, p.p - 2) / b;
  }
  BINADE_HD static double gradient_b(double a, double b, double gy, const Params& p) {
    return b == 0 ? 0 : -gy * (p.p - 1) * value(a, b, p) / b;
  }
};

}  // namespace binade::ops
