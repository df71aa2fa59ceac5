#pragma once

#include <cmath>

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"
#include "binade/core/special_math.h"

/// Mathematical functions of one input x with result y, from RareUnaryOps (lists.h): computed in double for every
/// stored dtype, rounded once. NaN gives NaN. gx and gy are the gradients of the loss with respect to x and y. Whole
/// numbers give f32.
namespace binade::ops {

/// y = sin(x), x in radians. gx = gy cos(x). NaN for infinite x.
struct Sin : Unary<Sin> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "sin"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::sin(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * std::cos(x); }
};

/// y = cos(x), x in radians. gx = -gy sin(x). NaN for infinite x.
struct Cos : Unary<Cos> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "cos"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::cos(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return -gy * std::sin(x); }
};

/// y = tan(x), x in radians. gx = gy (1 + y^2).
struct Tan : Unary<Tan> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "tan", .precision = PrecisionClass::kFull});
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static double value(double x, const Params&) { return std::tan(x); }
  BINADE_HD static double gradient(double y, double gy, const Params&) { return gy * (1 + y * y); }
};

/// y = arc sine, in [-pi / 2, pi / 2]; NaN for |x| > 1. gx = gy / sqrt(1 - x^2), infinite at -1 and 1.
struct Asin : Unary<Asin> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "asin",
             .precision = PrecisionClass::kFull,
             .singularities = {{.input = 0, .at = -1, .derivative_only = true},
                               {.input = 0, .at = 1, .derivative_only = true}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::asin(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy / std::sqrt((1 - x) * (1 + x)); }
};

/// y = arc cosine, in [0, pi]; NaN for |x| > 1. gx = -gy / sqrt(1 - x^2), infinite at -1 and 1.
struct Acos : Unary<Acos> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "acos",
             .precision = PrecisionClass::kFull,
             .singularities = {{.input = 0, .at = -1, .derivative_only = true},
                               {.input = 0, .at = 1, .derivative_only = true}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::acos(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return -gy / std::sqrt((1 - x) * (1 + x)); }
};

/// y = arc tangent, in [-pi / 2, pi / 2]. gx = gy / (1 + x^2).
struct Atan : Unary<Atan> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "atan", .saturates = true});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::atan(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy / (1 + x * x); }
};

/// y = (exp(x) - exp(-x)) / 2. gx = gy cosh(x). Overflows f32 for |x| > 89.4.
struct Sinh : Unary<Sinh> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "sinh", .precision = PrecisionClass::kFull, .numerics = {.safe_low = -89.4, .safe_high = 89.4}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::sinh(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * std::cosh(x); }
};

/// y = (exp(x) + exp(-x)) / 2. gx = gy sinh(x). Overflows f32 for |x| > 89.4.
struct Cosh : Unary<Cosh> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "cosh", .precision = PrecisionClass::kFull, .numerics = {.safe_low = -89.4, .safe_high = 89.4}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::cosh(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * std::sinh(x); }
};

/// y = log(x + sqrt(x^2 + 1)). gx = gy / sqrt(x^2 + 1).
struct Asinh : Unary<Asinh> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "asinh"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::asinh(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy / std::hypot(x, 1.0); }
};

/// y = log(x + sqrt(x^2 - 1)); NaN for x < 1. gx = gy / sqrt(x^2 - 1), infinite at 1.
struct Acosh : Unary<Acosh> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "acosh",
             .precision = PrecisionClass::kFull,
             .singularities = {{.input = 0, .at = 1, .derivative_only = true}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::acosh(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) {
    return gy / (std::sqrt(x - 1) * std::sqrt(x + 1));
  }
};

/// y = log((1 + x) / (1 - x)) / 2: infinite at -1 and 1, NaN for |x| > 1. gx = gy / (1 - x^2).
struct Atanh : Unary<Atanh> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "atanh",
             .precision = PrecisionClass::kFull,
             .singularities = {{.input = 0, .at = -1}, {.input = 0, .at = 1}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::atanh(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy / ((1 - x) * (1 + x)); }
};

/// y = log(1 + x), accurate for small x: -inf at -1, NaN below. gx = gy / (1 + x).
struct Log1p : Unary<Log1p> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "log1p", .precision = PrecisionClass::kFull, .singularities = {{.input = 0, .at = -1}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::log1p(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy / (1 + x); }
};

/// y = exp(x) - 1, accurate for small x. gx = gy exp(x). Overflows f32 above 88.72.
struct Expm1 : Unary<Expm1> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "expm1", .precision = PrecisionClass::kFull, .numerics = {.safe_high = 88.72}, .saturates = true});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::expm1(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * std::exp(x); }
};

/// y = log(x) / ln 2: -inf at 0, NaN for negative x. gx = gy / (x ln 2).
struct Log2 : Unary<Log2> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "log2", .precision = PrecisionClass::kFull, .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::log2(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy / (x * math::kLn2); }
};

/// y = log(x) / ln 10: -inf at 0, NaN for negative x. gx = gy / (x ln 10).
struct Log10 : Unary<Log10> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "log10", .precision = PrecisionClass::kFull, .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::log10(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy / (x * 2.30258509299404568402); }
};

/// y = 2^x. gx = gy y ln 2. Overflows f32 from 128 on.
struct Exp2 : Unary<Exp2> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "exp2", .precision = PrecisionClass::kFull, .numerics = {.safe_high = 127.99}, .saturates = true});
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static double value(double x, const Params&) { return std::exp2(x); }
  BINADE_HD static double gradient(double y, double gy, const Params&) { return gy * y * math::kLn2; }
};

/// y = 1 / sqrt(x): infinite at 0, NaN for negative x. gx = -gy y^3 / 2.
struct Rsqrt : Unary<Rsqrt> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "rsqrt", .precision = PrecisionClass::kFull, .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static double value(double x, const Params&) { return 1 / std::sqrt(x); }
  BINADE_HD static double gradient(double y, double gy, const Params&) { return -0.5 * gy * y * y * y; }
};

/// y with erf(y) = x: infinite at -1 and 1, NaN for |x| > 1. gx = gy sqrt(pi) / 2 exp(y^2).
struct Erfinv : Unary<Erfinv> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "erfinv",
             .precision = PrecisionClass::kFull,
             .singularities = {{.input = 0, .at = -1}, {.input = 0, .at = 1}}});
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static double value(double x, const Params&) { return math::erfinv(x); }
  BINADE_HD static double gradient(double y, double gy, const Params&) {
    return gy * 0.88622692545275801365 * std::exp(y * y);
  }
};

/// y = log |gamma(x)|: infinite at 0 and the negative integers. gx = gy digamma(x).
struct Lgamma : Unary<Lgamma> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "lgamma", .precision = PrecisionClass::kFull, .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return math::lgamma(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * math::digamma(x); }
};

/// y = the derivative of lgamma(x): infinite at 0, NaN at the negative integers. gx = gy trigamma(x).
struct Digamma : Unary<Digamma> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "digamma", .precision = PrecisionClass::kFull, .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return math::digamma(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * math::trigamma(x); }
};

/// y = 1 - erf(x), accurate where erf(x) is near 1. gx = -gy 2 / sqrt(pi) exp(-x^2).
struct Erfc : Unary<Erfc> {
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "erfc", .precision = PrecisionClass::kFull, .saturates = true});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return std::erfc(x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) {
    return -gy * 1.12837916709551257390 * std::exp(-x * x);
  }
};

/// y = sin(pi x) / (pi x), 1 at 0; NaN for infinite x. gx = gy (cos(pi x) - y) / x, for |x| < 1/4 by its Taylor series,
/// which does not cancel.
struct Sinc : Unary<Sinc> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "sinc"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return x == 0 ? 1 : sine_of_turns(x) / (math::kPi * x); }
  BINADE_HD static double gradient(double x, double gy, const Params& p) {
    if (!(std::fabs(x) < 0.25)) return gy * ((std::cos(math::kPi * std::fmod(x, 2)) - value(x, p)) / x);
    const double u = math::kPi * x, t = u * u;
    const double series = 1.0 / 3 -
                          t * (1.0 / 30 -
                               t * (1.0 / 840 -
                                    t * (1.0 / 45360 - t * (1.0 / 3991680 - t * (1.0 / 518918400 - t / 93405312000)))));
    return -gy * math::kPi * u * series;
  }

 private:
  /// Returns sin(pi x), 0 at whole numbers.
  BINADE_HD static double sine_of_turns(double x) {
    const double r = std::fmod(x, 2);  // exact
    return r == std::trunc(r) ? 0 * r : std::sin(math::kPi * r);
  }
};

/// y = the modified Bessel function of the first kind of order 0. gx = gy I1(x). Overflows f32 for |x| > 91.9.
struct I0 : Unary<I0> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{
      .name = "bessel_i0", .precision = PrecisionClass::kFull, .numerics = {.safe_low = -91.8, .safe_high = 91.8}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return math::bessel_i(0, x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * math::bessel_i(1, x); }
};

/// y = the modified Bessel function of the first kind of order 1. gx = gy (I0(x) - y / x), gy / 2 at 0. Overflows f32
/// for |x| > 91.9.
struct I1 : Unary<I1> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{
      .name = "bessel_i1", .precision = PrecisionClass::kFull, .numerics = {.safe_low = -91.8, .safe_high = 91.8}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return math::bessel_i(1, x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) {
    return gy * (x == 0 ? 0.5 : math::bessel_i(0, x) - math::bessel_i(1, x) / x);
  }
};

/// y = derivative n (whole, at least 0) of digamma(x): infinite at 0 and, for n > 0, at the negative integers. gx = gy
/// polygamma(n + 1, x).
struct Polygamma : Unary<Polygamma> {
  struct Params {
    double n = 1;
  };
  static constexpr OpInfo info = detail::rare_info(
      OpInfo{.name = "polygamma", .precision = PrecisionClass::kFull, .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params& p) { return math::polygamma(p.n, x); }
  BINADE_HD static double gradient(double x, double gy, const Params& p) { return gy * math::polygamma(p.n + 1, x); }
};

}  // namespace binade::ops
