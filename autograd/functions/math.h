#pragma once

#include <optional>

#include "binade/autograd/functions/elementwise.h"

/// Mathematical functions of variables, element by element. Formula, dtypes and gradients: core/ops/math_functions.h,
/// core/ops/rounding.h and core/ops/rare_binary.h.
namespace binade {

/// The sine of x in radians.
inline Variable sin(const Variable& x) { return detail::elementwise<ops::Sin>({}, {x}); }
/// The cosine of x in radians.
inline Variable cos(const Variable& x) { return detail::elementwise<ops::Cos>({}, {x}); }
/// The tangent of x in radians.
inline Variable tan(const Variable& x) { return detail::elementwise<ops::Tan>({}, {x}); }
/// The arc sine in radians: NaN outside of -1 … 1.
inline Variable asin(const Variable& x) { return detail::elementwise<ops::Asin>({}, {x}); }
/// The arc cosine in radians: NaN outside of -1 … 1.
inline Variable acos(const Variable& x) { return detail::elementwise<ops::Acos>({}, {x}); }
/// The arc tangent in radians.
inline Variable atan(const Variable& x) { return detail::elementwise<ops::Atan>({}, {x}); }
/// The hyperbolic sine.
inline Variable sinh(const Variable& x) { return detail::elementwise<ops::Sinh>({}, {x}); }
/// The hyperbolic cosine.
inline Variable cosh(const Variable& x) { return detail::elementwise<ops::Cosh>({}, {x}); }
/// The inverse of sinh.
inline Variable asinh(const Variable& x) { return detail::elementwise<ops::Asinh>({}, {x}); }
/// The inverse of cosh: NaN below 1.
inline Variable acosh(const Variable& x) { return detail::elementwise<ops::Acosh>({}, {x}); }
/// The inverse of tanh: infinite at -1 and 1, NaN beyond.
inline Variable atanh(const Variable& x) { return detail::elementwise<ops::Atanh>({}, {x}); }
/// log(1 + x), accurate near 0.
inline Variable log1p(const Variable& x) { return detail::elementwise<ops::Log1p>({}, {x}); }
/// exp(x) - 1, accurate near 0.
inline Variable expm1(const Variable& x) { return detail::elementwise<ops::Expm1>({}, {x}); }
/// The logarithm to base 2.
inline Variable log2(const Variable& x) { return detail::elementwise<ops::Log2>({}, {x}); }
/// The logarithm to base 10.
inline Variable log10(const Variable& x) { return detail::elementwise<ops::Log10>({}, {x}); }
/// 2 to the power x.
inline Variable exp2(const Variable& x) { return detail::elementwise<ops::Exp2>({}, {x}); }
/// 1 / sqrt(x): infinite at 0, NaN below.
inline Variable rsqrt(const Variable& x) { return detail::elementwise<ops::Rsqrt>({}, {x}); }
/// The inverse of erf: infinite at -1 and 1, NaN beyond.
inline Variable erfinv(const Variable& x) { return detail::elementwise<ops::Erfinv>({}, {x}); }
/// The logarithm of the absolute value of the gamma function.
inline Variable lgamma(const Variable& x) { return detail::elementwise<ops::Lgamma>({}, {x}); }
/// The derivative of the logarithm of the gamma function.
inline Variable digamma(const Variable& x) { return detail::elementwise<ops::Digamma>({}, {x}); }
/// 1 - erf(x), accurate for large x.
inline Variable erfc(const Variable& x) { return detail::elementwise<ops::Erfc>({}, {x}); }
/// sin(pi x) / (pi x), 1 at 0.
inline Variable sinc(const Variable& x) { return detail::elementwise<ops::Sinc>({}, {x}); }
/// The modified Bessel function of the first kind of order 0.
inline Variable i0(const Variable& x) { return detail::elementwise<ops::I0>({}, {x}); }
/// The modified Bessel function of the first kind of order 1.
inline Variable i1(const Variable& x) { return detail::elementwise<ops::I1>({}, {x}); }
/// Returns derivative n of digamma(x). Throws ArgumentError unless n is in [0, 150].
Variable polygamma(int n, const Variable& x);
/// -1, 0 or 1. Its gradient is 0.
inline Variable sign(const Variable& x) { return detail::elementwise<ops::Sign>({}, {x}); }
/// The largest whole number that is not above x. Its gradient is 0.
inline Variable floor(const Variable& x) { return detail::elementwise<ops::Floor>({}, {x}); }
/// The smallest whole number that is not below x. Its gradient is 0.
inline Variable ceil(const Variable& x) { return detail::elementwise<ops::Ceil>({}, {x}); }
/// x without its digits after the point. Its gradient is 0.
inline Variable trunc(const Variable& x) { return detail::elementwise<ops::Trunc>({}, {x}); }
/// The nearest whole number, the even one of two. Its gradient is 0.
inline Variable round(const Variable& x) { return detail::elementwise<ops::Round>({}, {x}); }
/// x - trunc(x).
inline Variable frac(const Variable& x) { return detail::elementwise<ops::Frac>({}, {x}); }
/// 1 / x.
inline Variable reciprocal(const Variable& x) { return 1.0 / x; }
/// Returns x with NaN replaced by `nan`, and inf and -inf by the given numbers or the finite limits of x's dtype.
inline Variable nan_to_num(const Variable& x, double nan = 0, std::optional<double> posinf = {},
                           std::optional<double> neginf = {}) {
  if (!is_floating(x.dtype())) return x;
  const double largest = range_of(x.dtype()).largest;
  return detail::elementwise<ops::NanToNum>({nan, posinf.value_or(largest), neginf.value_or(-largest)}, {x});
}

/// Returns a^b for every element of a and b, which broadcast.
inline Variable pow(const Variable& a, const Variable& b) { return detail::elementwise<ops::TensorPow>({}, {a, b}); }
/// The angle of the point (b, a) in radians, from -pi to pi.
inline Variable atan2(const Variable& a, const Variable& b) { return detail::elementwise<ops::Atan2>({}, {a, b}); }
/// The remainder of a / b with the sign of a.
inline Variable fmod(const Variable& a, const Variable& b) { return detail::elementwise<ops::Fmod>({}, {a, b}); }
/// The remainder of a / b with the sign of b.
inline Variable remainder(const Variable& a, const Variable& b) {
  return detail::elementwise<ops::Remainder>({}, {a, b});
}
/// floor(a / b).
inline Variable floor_divide(const Variable& a, const Variable& b) {
  return detail::elementwise<ops::FloorDivide>({}, {a, b});
}
/// A divisor that is a number gives the dtype of a, as in arithmetic: remainder(arange(9), 4) is i64.
template <Number S>
Variable fmod(const Variable& a, S b) {
  return fmod(a, detail::number_operand_for(a, b));
}
template <Number S>
Variable remainder(const Variable& a, S b) {
  return remainder(a, detail::number_operand_for(a, b));
}
template <Number S>
Variable floor_divide(const Variable& a, S b) {
  return floor_divide(a, detail::number_operand_for(a, b));
}
/// sqrt(a a + b b).
inline Variable hypot(const Variable& a, const Variable& b) { return detail::elementwise<ops::Hypot>({}, {a, b}); }
/// |a| with the sign of b.
inline Variable copysign(const Variable& a, const Variable& b) {
  return detail::elementwise<ops::Copysign>({}, {a, b});
}
/// log(exp(a) + exp(b)), computed without overflow.
inline Variable logaddexp(const Variable& a, const Variable& b) {
  return detail::elementwise<ops::LogAddExp>({}, {a, b});
}
/// a log(b), 0 where a is 0.
inline Variable xlogy(const Variable& a, const Variable& b) { return detail::elementwise<ops::Xlogy>({}, {a, b}); }

}  // namespace binade
