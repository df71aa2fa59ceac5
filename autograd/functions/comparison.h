#pragma once

#include "binade/autograd/functions/elementwise.h"
#include "binade/core/ops/truth.h"

/// Comparisons, logic and bits of variables of any dtype, without gradients; see core/ops/truth.h.
namespace binade {

inline Variable eq(const Variable& a, const Variable& b) { return apply_one<ops::Equal>({}, {a, b}); }
inline Variable ne(const Variable& a, const Variable& b) { return apply_one<ops::NotEqual>({}, {a, b}); }
inline Variable lt(const Variable& a, const Variable& b) { return apply_one<ops::Less>({}, {a, b}); }
inline Variable le(const Variable& a, const Variable& b) { return apply_one<ops::LessEqual>({}, {a, b}); }
inline Variable gt(const Variable& a, const Variable& b) { return apply_one<ops::Greater>({}, {a, b}); }
inline Variable ge(const Variable& a, const Variable& b) { return apply_one<ops::GreaterEqual>({}, {a, b}); }

inline Variable logical_and(const Variable& a, const Variable& b) { return apply_one<ops::LogicalAnd>({}, {a, b}); }
inline Variable logical_or(const Variable& a, const Variable& b) { return apply_one<ops::LogicalOr>({}, {a, b}); }
inline Variable logical_xor(const Variable& a, const Variable& b) { return apply_one<ops::LogicalXor>({}, {a, b}); }
inline Variable logical_not(const Variable& x) { return apply_one<ops::LogicalNot>({}, {x}); }
inline Variable isnan(const Variable& x) { return apply_one<ops::IsNan>({}, {x}); }
inline Variable isinf(const Variable& x) { return apply_one<ops::IsInf>({}, {x}); }
inline Variable isfinite(const Variable& x) { return apply_one<ops::IsFinite>({}, {x}); }

inline Variable bitwise_and(const Variable& a, const Variable& b) { return apply_one<ops::BitwiseAnd>({}, {a, b}); }
inline Variable bitwise_or(const Variable& a, const Variable& b) { return apply_one<ops::BitwiseOr>({}, {a, b}); }
inline Variable bitwise_xor(const Variable& a, const Variable& b) { return apply_one<ops::BitwiseXor>({}, {a, b}); }
inline Variable bitwise_left_shift(const Variable& a, const Variable& b) {
  return apply_one<ops::LeftShift>({}, {a, b});
}
inline Variable bitwise_right_shift(const Variable& a, const Variable& b) {
  return apply_one<ops::RightShift>({}, {a, b});
}
inline Variable bitwise_not(const Variable& x) { return apply_one<ops::BitwiseNot>({}, {x}); }

inline Variable operator&(const Variable& a, const Variable& b) { return bitwise_and(a, b); }
inline Variable operator|(const Variable& a, const Variable& b) { return bitwise_or(a, b); }
inline Variable operator^(const Variable& a, const Variable& b) { return bitwise_xor(a, b); }
inline Variable operator~(const Variable& x) { return bitwise_not(x); }

namespace detail {
/// Returns a number as a scalar that is compared with x: rounded to x's dtype if that is floating, else exact.
template <Number S>
Variable compared_with(const Variable& x, S s) {
  if (!is_floating(x.dtype()) && std::integral<S>) return scalar_beside(x, static_cast<std::int64_t>(s), DType::i64);
  return Tensor::scalar(static_cast<double>(s), is_floating(x.dtype()) ? x.dtype() : DType::f64, x.device());
}
}  // namespace detail

/// Comparisons element by element, as bool. `a == b` is a variable and no condition for an if; all(a == b).item() is.
inline Variable operator==(const Variable& a, const Variable& b) { return eq(a, b); }
inline Variable operator!=(const Variable& a, const Variable& b) { return ne(a, b); }
inline Variable operator<(const Variable& a, const Variable& b) { return lt(a, b); }
inline Variable operator<=(const Variable& a, const Variable& b) { return le(a, b); }
inline Variable operator>(const Variable& a, const Variable& b) { return gt(a, b); }
inline Variable operator>=(const Variable& a, const Variable& b) { return ge(a, b); }
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
