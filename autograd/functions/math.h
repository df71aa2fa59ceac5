#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "binade/autograd/functions/elementwise.h"

/// Mathematical functions of variables, element by element. Formula, dtypes and gradients: core/ops/math_functions.h,
/// core/ops/rounding.h and core/ops/rare_binary.h.
namespace binade {

inline Variable sin(const Variable& x) { return detail::elementwise<ops::Sin>({}, {x}); }
inline Variable cos(const Variable& x) { return detail::elementwise<ops::Cos>({}, {x}); }
inline Variable tan(const Variable& x) { return detail::elementwise<ops::Tan>({}, {x}); }
inline Variable asin(const Variable& x) { return detail::elementwise<ops::Asin>({}, {x}); }
inline Variable acos(const Variable& x) { return detail::elementwise<ops::Acos>({}, {x}); }
inline Variable atan(const Variable& x) { return detail::elementwise<ops::Atan>({}, {x}); }
inline Variable sinh(const Variable& x) { return detail::elementwise<ops::Sinh>({}, {x}); }
inline Variable cosh(const Variable& x) { return detail::elementwise<ops::Cosh>({}, {x}); }
inline Variable asinh(const Variable& x) { return detail::elementwise<ops::Asinh>({}, {x}); }
inline Variable acosh(const Variable& x) { return detail::elementwise<ops::Acosh>({}, {x}); }
inline Variable atanh(const Variable& x) { return detail::elementwise<ops::Atanh>({}, {x}); }
inline Variable log1p(const Variable& x) { return detail::elementwise<ops::Log1p>({}, {x}); }
inline Variable expm1(const Variable& x) { return detail::elementwise<ops::Expm1>({}, {x}); }
inline Variable log2(const Variable& x) { return detail::elementwise<ops::Log2>({}, {x}); }
inline Variable log10(const Variable& x) { return detail::elementwise<ops::Log10>({}, {x}); }
inline Variable exp2(const Variable& x) { return detail::elementwise<ops::Exp2>({}, {x}); }
inline Variable rsqrt(const Variable& x) { return detail::elementwise<ops::Rsqrt>({}, {x}); }
inline Variable erfinv(const Variable& x) { return detail::elementwise<ops::Erfinv>({}, {x}); }
inline Variable lgamma(const Variable& x) { return detail::elementwise<ops::Lgamma>({}, {x}); }
inline Variable digamma(const Variable& x) { return detail::elementwise<ops::Digamma>({}, {x}); }
inline Variable erfc(const Variable& x) { return detail::elementwise<ops::Erfc>({}, {x}); }
inline Variable sinc(const Variable& x) { return detail::elementwise<ops::Sinc>({}, {x}); }
inline Variable i0(const Variable& x) { return detail::elementwise<ops::I0>({}, {x}); }
inline Variable i1(const Variable& x) { return detail::elementwise<ops::I1>({}, {x}); }
/// Returns derivative n of digamma(x). Throws ArgumentError unless n is in [0, 150].
Variable polygamma(int n, const Variable& x);
inline Variable sign(const Variable& x) { return detail::elementwise<ops::Sign>({}, {x}); }
inline Variable floor(const Variable& x) { return detail::elementwise<ops::Floor>({}, {x}); }
inline Variable ceil(const Variable& x) { return detail::elementwise<ops::Ceil>({}, {x}); }
inline Variable trunc(const Variable& x) { return detail::elementwise<ops::Trunc>({}, {x}); }
inline Variable round(const Variable& x) { return detail::elementwise<ops::Round>({}, {x}); }
inline Variable frac(const Variable& x) { return detail::elementwise<ops::Frac>({}, {x}); }
inline Variable reciprocal(const Variable& x) { return 1.0 / x; }
/// Returns x with NaN replaced by `nan`, and inf and -inf by the given numbers or by the largest ones of x's dtype.
inline Variable nan_to_num(const Variable& x, double nan = 0, std::optional<double> posinf = {},
                           std::optional<double> neginf = {}) {
  if (!is_floating(x.dtype())) return x;
  const double largest = range_of(x.dtype()).largest;
  return detail::elementwise<ops::NanToNum>({nan, posinf.value_or(largest), neginf.value_or(-largest)}, {x});
}

/// Returns a^b for every element of a and b, which broadcast.
inline Variable pow(const Variable& a, const Variable& b) { return detail::elementwise<ops::TensorPow>({}, {a, b}); }
inline Variable atan2(const Variable& a, const Variable& b) { return detail::elementwise<ops::Atan2>({}, {a, b}); }
inline Variable fmod(const Variable& a, const Variable& b) { return detail::elementwise<ops::Fmod>({}, {a, b}); }
inline Variable remainder(const Variable& a, const Variable& b) {
  return detail::elementwise<ops::Remainder>({}, {a, b});
}
inline Variable floor_divide(const Variable& a, const Variable& b) {
  return detail::elementwise<ops::FloorDivide>({}, {a, b});
}

/// A C++ number that stands for an operand: bool is none, because truth values are not numbers.
template <class S>
concept PlainNumber = std::is_arithmetic_v<S> && !std::same_as<S, bool>;
namespace detail {
/// Returns the number as a scalar beside x, as `x + s` takes it: a whole number keeps the dtype of whole numbers, a
/// floating one beside them is f32, and beside floating numbers it has the dtype of x.
template <PlainNumber S>
Variable number_beside(const Variable& x, S s) {
  if constexpr (std::integral<S>)
    if (!is_floating(x.dtype())) return whole_beside(x, static_cast<std::int64_t>(s));
  return Tensor::full(Shape{}, static_cast<double>(s), is_floating(x.dtype()) ? x.dtype() : DType::f32, x.device());
}
}  // namespace detail
/// The same with a number as the second operand: `remainder(x, 10)`.
template <PlainNumber S>
Variable fmod(const Variable& x, S s) {
  return fmod(x, detail::number_beside(x, s));
}
template <PlainNumber S>
Variable remainder(const Variable& x, S s) {
  return remainder(x, detail::number_beside(x, s));
}
template <PlainNumber S>
Variable floor_divide(const Variable& x, S s) {
  return floor_divide(x, detail::number_beside(x, s));
}
/// where() with a number in the place of a or b: `where(mask, x, 0)`.
template <PlainNumber S>
Variable where(const Variable& condition, const Variable& a, S b) {
  return where(condition, a, detail::number_beside(a, b));
}
template <PlainNumber S>
Variable where(const Variable& condition, S a, const Variable& b) {
  return where(condition, detail::number_beside(b, a), b);
}
/// where() of two numbers, of the shape of the condition: i64 if both are whole, else f32.
template <PlainNumber A, PlainNumber B>
Variable where(const Variable& condition, A a, B b) {
  const auto as = [&](auto s) -> Variable {
    if constexpr (std::integral<A> && std::integral<B>)
      return detail::scalar_beside(condition, static_cast<std::int64_t>(s), DType::i64);
    else
      return Tensor::full(Shape{}, static_cast<double>(s), DType::f32, condition.device());
  };
  return where(condition, as(a), as(b));
}
inline Variable hypot(const Variable& a, const Variable& b) { return detail::elementwise<ops::Hypot>({}, {a, b}); }
inline Variable copysign(const Variable& a, const Variable& b) {
  return detail::elementwise<ops::Copysign>({}, {a, b});
}
inline Variable logaddexp(const Variable& a, const Variable& b) {
  return detail::elementwise<ops::LogAddExp>({}, {a, b});
}
inline Variable xlogy(const Variable& a, const Variable& b) { return detail::elementwise<ops::Xlogy>({}, {a, b}); }

}  // namespace binade
