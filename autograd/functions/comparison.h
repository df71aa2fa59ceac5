#pragma once

#include "binade/autograd/functions/elementwise.h"

/// Comparisons, logic and bits of variables of any dtype, without gradients; see core/ops/truth.h.
namespace binade {

Variable eq(const Variable& a, const Variable& b);
Variable ne(const Variable& a, const Variable& b);
Variable lt(const Variable& a, const Variable& b);
Variable le(const Variable& a, const Variable& b);
Variable gt(const Variable& a, const Variable& b);
Variable ge(const Variable& a, const Variable& b);

Variable logical_and(const Variable& a, const Variable& b);
Variable logical_or(const Variable& a, const Variable& b);
Variable logical_xor(const Variable& a, const Variable& b);
Variable logical_not(const Variable& x);
Variable isnan(const Variable& x);
Variable isinf(const Variable& x);
Variable isfinite(const Variable& x);

Variable bitwise_and(const Variable& a, const Variable& b);
Variable bitwise_or(const Variable& a, const Variable& b);
Variable bitwise_xor(const Variable& a, const Variable& b);
Variable bitwise_left_shift(const Variable& a, const Variable& b);
Variable bitwise_right_shift(const Variable& a, const Variable& b);
Variable bitwise_not(const Variable& x);

/// The greatest common divisor and the least common multiple, at least 0; a multiple that does not fit wraps around and
/// may be negative. Throw DTypeError unless both are i64, i32 or u8.
Variable gcd(const Variable& a, const Variable& b);
Variable lcm(const Variable& a, const Variable& b);

Variable operator&(const Variable& a, const Variable& b);
Variable operator|(const Variable& a, const Variable& b);
Variable operator^(const Variable& a, const Variable& b);
Variable operator~(const Variable& x);

namespace detail {
/// Returns s as a scalar tensor to compare with x: rounded to x's dtype if that is floating, otherwise exact.
template <Number S>
Variable compared_with(const Variable& x, S s) {
  if (!is_floating(x.dtype()) && std::integral<S>) return scalar_like(x, static_cast<std::int64_t>(s), DType::i64);
  return Tensor::scalar(static_cast<double>(s), is_floating(x.dtype()) ? x.dtype() : DType::f64, x.device());
}
}  // namespace detail

/// Compare element by element and return bool. `a == b` is a variable, no condition for an `if`: use equal(a, b) there.
Variable operator==(const Variable& a, const Variable& b);
Variable operator!=(const Variable& a, const Variable& b);
Variable operator<(const Variable& a, const Variable& b);
Variable operator<=(const Variable& a, const Variable& b);
Variable operator>(const Variable& a, const Variable& b);
Variable operator>=(const Variable& a, const Variable& b);
template <Number S>
Variable operator==(const Variable& x, S s) {
  return eq(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator!=(const Variable& x, S s) {
  return ne(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator<(const Variable& x, S s) {
  return lt(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator<=(const Variable& x, S s) {
  return le(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator>(const Variable& x, S s) {
  return gt(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator>=(const Variable& x, S s) {
  return ge(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator==(S s, const Variable& x) {
  return eq(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator!=(S s, const Variable& x) {
  return ne(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator<(S s, const Variable& x) {
  return gt(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator<=(S s, const Variable& x) {
  return ge(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator>(S s, const Variable& x) {
  return lt(x, detail::compared_with(x, s));
}
template <Number S>
Variable operator>=(S s, const Variable& x) {
  return le(x, detail::compared_with(x, s));
}

}  // namespace binade
