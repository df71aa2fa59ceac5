#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>

#include "binade/autograd/variable.h"
#include "binade/core/ops/lists.h"

/// Elementwise functions of variables. Formula, dtypes and errors: core/ops/unary.h, core/ops/binary.h and the headers
/// named like the function.
namespace binade {

namespace detail {
/// Applies an op of core/ops/lists.h, with its parameters in their order, to one or two inputs. elementwise.cpp defines
/// it for every op of the lists.
template <class Op>
Variable elementwise(std::initializer_list<double> params, std::initializer_list<Variable> inputs);
/// Returns `value` as a scalar tensor of `dtype` on x's device.
Variable scalar_beside(const Variable& x, std::int64_t value, DType dtype);
/// Returns a whole number as a scalar that keeps the dtype of x, which has whole numbers: x's own, i64 for bool.
Variable whole_beside(const Variable& x, std::int64_t value);
/// where() of two operands of whole numbers or truth values, exact, in the wider dtype of both.
Variable whole_where(const Variable& condition, const Variable& a, const Variable& b);
/// clamp() of whole numbers, to the whole numbers between the bounds.
Variable whole_clamp(const Variable& x, double low, double high);
}  // namespace detail

inline Variable relu(const Variable& x) { return detail::elementwise<ops::Relu>({}, {x}); }
inline Variable gelu(const Variable& x) { return detail::elementwise<ops::Gelu>({}, {x}); }
inline Variable gelu_tanh(const Variable& x) { return detail::elementwise<ops::GeluTanh>({}, {x}); }
inline Variable silu(const Variable& x) { return detail::elementwise<ops::Silu>({}, {x}); }
inline Variable sigmoid(const Variable& x) { return detail::elementwise<ops::Sigmoid>({}, {x}); }
inline Variable tanh(const Variable& x) { return detail::elementwise<ops::Tanh>({}, {x}); }
inline Variable erf(const Variable& x) { return detail::elementwise<ops::Erf>({}, {x}); }
inline Variable exp(const Variable& x) { return detail::elementwise<ops::Exp>({}, {x}); }
inline Variable log(const Variable& x) { return detail::elementwise<ops::Log>({}, {x}); }
/// Returns log(1 + exp(beta x)) / beta, or x where beta x > threshold.
inline Variable softplus(const Variable& x, double beta = 1, double threshold = 20) {
  if (beta == 1 && threshold >= 20) return detail::elementwise<ops::Softplus>({}, {x});
  return detail::elementwise<ops::SoftplusBeta>({beta, threshold}, {x});
}
inline Variable sqrt(const Variable& x) { return detail::elementwise<ops::Sqrt>({}, {x}); }
inline Variable pow(const Variable& x, double exponent) { return detail::elementwise<ops::Pow>({exponent}, {x}); }
inline Variable square(const Variable& x) { return detail::elementwise<ops::Square>({}, {x}); }
inline Variable clamp(const Variable& x, double low, double high) {
  return is_floating(x.dtype()) ? detail::elementwise<ops::Clamp>({low, high}, {x}) : detail::whole_clamp(x, low, high);
}
inline Variable abs(const Variable& x) { return detail::elementwise<ops::Abs>({}, {x}); }

/// Activations; see core/ops/unary.h and core/ops/activations.h.
inline Variable leaky_relu(const Variable& x, double slope = 0.01) {
  return detail::elementwise<ops::LeakyRelu>({slope}, {x});
}
inline Variable elu(const Variable& x, double alpha = 1) { return detail::elementwise<ops::Elu>({alpha}, {x}); }
inline Variable selu(const Variable& x) { return detail::elementwise<ops::Selu>({}, {x}); }
inline Variable celu(const Variable& x, double alpha = 1) { return detail::elementwise<ops::Celu>({alpha}, {x}); }
inline Variable hardswish(const Variable& x) { return detail::elementwise<ops::Hardswish>({}, {x}); }
inline Variable hardsigmoid(const Variable& x) { return detail::elementwise<ops::Hardsigmoid>({}, {x}); }
inline Variable hardtanh(const Variable& x, double low = -1, double high = 1) {
  return detail::elementwise<ops::Hardtanh>({low, high}, {x});
}
inline Variable relu6(const Variable& x) { return hardtanh(x, 0, 6); }
inline Variable mish(const Variable& x) { return detail::elementwise<ops::Mish>({}, {x}); }
inline Variable logsigmoid(const Variable& x) { return detail::elementwise<ops::Logsigmoid>({}, {x}); }
inline Variable hardshrink(const Variable& x, double lambda = 0.5) {
  return detail::elementwise<ops::Hardshrink>({lambda}, {x});
}
inline Variable softshrink(const Variable& x, double lambda = 0.5) {
  return detail::elementwise<ops::Softshrink>({lambda}, {x});
}
inline Variable tanhshrink(const Variable& x) { return detail::elementwise<ops::Tanhshrink>({}, {x}); }
inline Variable threshold(const Variable& x, double threshold, double value) {
  return detail::elementwise<ops::Threshold>({threshold, value}, {x});
}
/// Returns x where x > 0, else weight x; the weight broadcasts: one slope, or one per channel.
inline Variable prelu(const Variable& x, const Variable& weight) {
  return detail::elementwise<ops::Prelu>({}, {x, weight});
}

inline Variable maximum(const Variable& a, const Variable& b) { return detail::elementwise<ops::Maximum>({}, {a, b}); }
inline Variable minimum(const Variable& a, const Variable& b) { return detail::elementwise<ops::Minimum>({}, {a, b}); }
/// Returns a where `condition` (u8 or bool) is true, else b.
Variable where(const Variable& condition, const Variable& a, const Variable& b);

/// Sets each element to 0 with probability p and divides the others by 1 - p. Modules call it in training only.
Variable dropout(const Variable& x, double p);
/// Returns x rounded to dtype `to`, or x itself if it has that dtype.
Variable cast(const Variable& x, DType to);

inline Variable operator+(const Variable& a, const Variable& b) { return detail::elementwise<ops::Add>({}, {a, b}); }
inline Variable operator-(const Variable& a, const Variable& b) { return detail::elementwise<ops::Sub>({}, {a, b}); }
inline Variable operator*(const Variable& a, const Variable& b) { return detail::elementwise<ops::Mul>({}, {a, b}); }
inline Variable operator/(const Variable& a, const Variable& b) { return detail::elementwise<ops::Div>({}, {a, b}); }
inline Variable operator-(const Variable& x) { return detail::elementwise<ops::Neg>({}, {x}); }

inline Variable operator+(const Variable& x, double s) { return detail::elementwise<ops::AddScalar>({s}, {x}); }
inline Variable operator+(double s, const Variable& x) { return detail::elementwise<ops::AddScalar>({s}, {x}); }
inline Variable operator-(const Variable& x, double s) { return detail::elementwise<ops::AddScalar>({-s}, {x}); }
inline Variable operator-(double s, const Variable& x) { return detail::elementwise<ops::ScalarSub>({s}, {x}); }
inline Variable operator*(const Variable& x, double s) { return detail::elementwise<ops::MulScalar>({s}, {x}); }
inline Variable operator*(double s, const Variable& x) { return detail::elementwise<ops::MulScalar>({s}, {x}); }
inline Variable operator/(const Variable& x, double s) { return detail::elementwise<ops::DivScalar>({s}, {x}); }
inline Variable operator/(double s, const Variable& x) { return detail::elementwise<ops::ScalarDiv>({s}, {x}); }

/// Whole numbers and a whole number stay whole (torch's rule); a quotient, or a floating number, makes them f32.
template <std::integral S>
Variable operator+(const Variable& x, S s) {
  return is_floating(x.dtype()) ? x + static_cast<double>(s)
                                : x + detail::whole_beside(x, static_cast<std::int64_t>(s));
}
template <std::integral S>
Variable operator+(S s, const Variable& x) {
  return x + s;
}
template <std::integral S>
Variable operator-(const Variable& x, S s) {
  return is_floating(x.dtype()) ? x - static_cast<double>(s)
                                : x - detail::whole_beside(x, static_cast<std::int64_t>(s));
}
template <std::integral S>
Variable operator-(S s, const Variable& x) {
  return is_floating(x.dtype()) ? static_cast<double>(s) - x
                                : detail::whole_beside(x, static_cast<std::int64_t>(s)) - x;
}
template <std::integral S>
Variable operator*(const Variable& x, S s) {
  return is_floating(x.dtype()) ? x * static_cast<double>(s)
                                : x * detail::whole_beside(x, static_cast<std::int64_t>(s));
}
template <std::integral S>
Variable operator*(S s, const Variable& x) {
  return x * s;
}

/// x = x + y, and so on: the variable refers to the result, and other copies of the old variable keep the old value.
inline Variable& operator+=(Variable& x, const Variable& y) { return x = x + y; }
inline Variable& operator-=(Variable& x, const Variable& y) { return x = x - y; }
inline Variable& operator*=(Variable& x, const Variable& y) { return x = x * y; }
inline Variable& operator/=(Variable& x, const Variable& y) { return x = x / y; }
template <Number S>
Variable& operator+=(Variable& x, S s) {
  return x = x + s;
}
template <Number S>
Variable& operator-=(Variable& x, S s) {
  return x = x - s;
}
template <Number S>
Variable& operator*=(Variable& x, S s) {
  return x = x * s;
}
template <Number S>
Variable& operator/=(Variable& x, S s) {
  return x = x / s;
}

}  // namespace binade
