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
Variable scalar_like(const Variable& x, std::int64_t value, DType dtype);
/// Returns a whole number as an operand for x, a tensor of whole numbers: a scalar of x's dtype, or of i64 for bool.
Variable integer_operand_for(const Variable& x, std::int64_t value);
/// where() of two operands of whole numbers or truth values, exact, in the wider dtype of both.
Variable whole_where(const Variable& condition, const Variable& a, const Variable& b);
/// clamp() of whole numbers, to the whole numbers between the bounds.
Variable whole_clamp(const Variable& x, double low, double high);
/// Returns a number as an operand for x: a scalar of x's dtype if that is floating; otherwise whole_beside() if s is
/// whole, and a scalar of f32 if it is not.
template <Number S>
Variable number_operand_for(const Variable& x, S s) {
  if (!is_floating(x.dtype()) && std::integral<S>) return integer_operand_for(x, static_cast<std::int64_t>(s));
  return Tensor::full(Shape{}, static_cast<double>(s), is_floating(x.dtype()) ? x.dtype() : DType::f32, x.device());
}
}  // namespace detail

/// max(x, 0).
inline Variable relu(const Variable& x) { return detail::elementwise<ops::Relu>({}, {x}); }
/// x Phi(x), with the normal distribution function Phi (Hendrycks and Gimpel, 2016).
inline Variable gelu(const Variable& x) { return detail::elementwise<ops::Gelu>({}, {x}); }
/// The approximation of gelu() by tanh, which GPT-2 uses.
inline Variable gelu_tanh(const Variable& x) { return detail::elementwise<ops::GeluTanh>({}, {x}); }
/// x sigmoid(x), also called swish.
inline Variable silu(const Variable& x) { return detail::elementwise<ops::Silu>({}, {x}); }
/// 1 / (1 + exp(-x)).
inline Variable sigmoid(const Variable& x) { return detail::elementwise<ops::Sigmoid>({}, {x}); }
/// The hyperbolic tangent.
inline Variable tanh(const Variable& x) { return detail::elementwise<ops::Tanh>({}, {x}); }
/// The error function.
inline Variable erf(const Variable& x) { return detail::elementwise<ops::Erf>({}, {x}); }
/// e to the power x, in f32.
inline Variable exp(const Variable& x) { return detail::elementwise<ops::Exp>({}, {x}); }
/// The natural logarithm, in f32: -inf at 0, NaN below.
inline Variable log(const Variable& x) { return detail::elementwise<ops::Log>({}, {x}); }
/// Returns log(1 + exp(beta x)) / beta, or x where beta x > threshold.
inline Variable softplus(const Variable& x, double beta = 1, double threshold = 20) {
  if (beta == 1 && threshold >= 20) return detail::elementwise<ops::Softplus>({}, {x});
  return detail::elementwise<ops::SoftplusBeta>({beta, threshold}, {x});
}
/// The square root: NaN below 0.
inline Variable sqrt(const Variable& x) { return detail::elementwise<ops::Sqrt>({}, {x}); }
/// x to a constant power.
inline Variable pow(const Variable& x, double exponent) { return detail::elementwise<ops::Pow>({exponent}, {x}); }
/// x x.
inline Variable square(const Variable& x) { return detail::elementwise<ops::Square>({}, {x}); }
/// x, but at least `low` and at most `high`.
inline Variable clamp(const Variable& x, double low, double high) {
  return is_floating(x.dtype()) ? detail::elementwise<ops::Clamp>({low, high}, {x}) : detail::whole_clamp(x, low, high);
}
/// The absolute value.
inline Variable abs(const Variable& x) { return detail::elementwise<ops::Abs>({}, {x}); }

/// x where x > 0, else slope x.
inline Variable leaky_relu(const Variable& x, double slope = 0.01) {
  return detail::elementwise<ops::LeakyRelu>({slope}, {x});
}
/// x where x > 0, else alpha (exp(x) - 1).
inline Variable elu(const Variable& x, double alpha = 1) { return detail::elementwise<ops::Elu>({alpha}, {x}); }
/// elu with the scale and alpha for which activations keep mean 0 and variance 1 (Klambauer et al., 2017).
inline Variable selu(const Variable& x) { return detail::elementwise<ops::Selu>({}, {x}); }
/// x where x > 0, else alpha (exp(x / alpha) - 1).
inline Variable celu(const Variable& x, double alpha = 1) { return detail::elementwise<ops::Celu>({alpha}, {x}); }
/// x relu6(x + 3) / 6.
inline Variable hardswish(const Variable& x) { return detail::elementwise<ops::Hardswish>({}, {x}); }
/// relu6(x + 3) / 6.
inline Variable hardsigmoid(const Variable& x) { return detail::elementwise<ops::Hardsigmoid>({}, {x}); }
/// x, but at least `low` and at most `high`.
inline Variable hardtanh(const Variable& x, double low = -1, double high = 1) {
  return detail::elementwise<ops::Hardtanh>({low, high}, {x});
}
/// min(max(x, 0), 6).
inline Variable relu6(const Variable& x) { return hardtanh(x, 0, 6); }
/// x tanh(log(1 + exp(x))).
inline Variable mish(const Variable& x) { return detail::elementwise<ops::Mish>({}, {x}); }
/// log(sigmoid(x)), computed without overflow.
inline Variable logsigmoid(const Variable& x) { return detail::elementwise<ops::Logsigmoid>({}, {x}); }
/// x where |x| > lambda, else 0.
inline Variable hardshrink(const Variable& x, double lambda = 0.5) {
  return detail::elementwise<ops::Hardshrink>({lambda}, {x});
}
/// x moved towards 0 by lambda; 0 where |x| <= lambda.
inline Variable softshrink(const Variable& x, double lambda = 0.5) {
  return detail::elementwise<ops::Softshrink>({lambda}, {x});
}
/// x - tanh(x).
inline Variable tanhshrink(const Variable& x) { return detail::elementwise<ops::Tanhshrink>({}, {x}); }
/// x where x > threshold, else value.
inline Variable threshold(const Variable& x, double threshold, double value) {
  return detail::elementwise<ops::Threshold>({threshold, value}, {x});
}
/// Returns x where x > 0, else weight x; the weight broadcasts: one slope, or one per channel.
inline Variable prelu(const Variable& x, const Variable& weight) {
  return detail::elementwise<ops::Prelu>({}, {x, weight});
}

/// The larger of a and b, which broadcast; NaN if one of them is NaN.
inline Variable maximum(const Variable& a, const Variable& b) { return detail::elementwise<ops::Maximum>({}, {a, b}); }
/// The smaller of a and b, which broadcast; NaN if one of them is NaN.
inline Variable minimum(const Variable& a, const Variable& b) { return detail::elementwise<ops::Minimum>({}, {a, b}); }
/// Returns a where `condition` (u8 or bool) is true, else b.
Variable where(const Variable& condition, const Variable& a, const Variable& b);
/// A variable and a number give the same dtype as in arithmetic. Two numbers give i64 if both are whole, else f32.
template <Number S>
Variable where(const Variable& condition, const Variable& a, S b) {
  return where(condition, a, detail::number_operand_for(a, b));
}
template <Number S>
Variable where(const Variable& condition, S a, const Variable& b) {
  return where(condition, detail::number_operand_for(b, a), b);
}
template <Number A, Number B>
Variable where(const Variable& condition, A a, B b) {
  const auto as = [&](auto s) -> Variable {
    if constexpr (std::integral<A> && std::integral<B>)
      return detail::scalar_like(condition, static_cast<std::int64_t>(s), DType::i64);
    else
      return Tensor::full(Shape{}, static_cast<double>(s), DType::f32, condition.device());
  };
  return where(condition, as(a), as(b));
}

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

/// A tensor of whole numbers and a whole number give whole numbers, as in PyTorch; a division gives f32.
template <std::integral S>
Variable operator+(const Variable& x, S s) {
  return is_floating(x.dtype()) ? x + static_cast<double>(s)
                                : x + detail::integer_operand_for(x, static_cast<std::int64_t>(s));
}
template <std::integral S>
Variable operator+(S s, const Variable& x) {
  return x + s;
}
template <std::integral S>
Variable operator-(const Variable& x, S s) {
  return is_floating(x.dtype()) ? x - static_cast<double>(s)
                                : x - detail::integer_operand_for(x, static_cast<std::int64_t>(s));
}
template <std::integral S>
Variable operator-(S s, const Variable& x) {
  return is_floating(x.dtype()) ? static_cast<double>(s) - x
                                : detail::integer_operand_for(x, static_cast<std::int64_t>(s)) - x;
}
template <std::integral S>
Variable operator*(const Variable& x, S s) {
  return is_floating(x.dtype()) ? x * static_cast<double>(s)
                                : x * detail::integer_operand_for(x, static_cast<std::int64_t>(s));
}
template <std::integral S>
Variable operator*(S s, const Variable& x) {
  return x * s;
}

/// Assign x = x + y, and so on. Nothing is written in place: other copies of the variable keep the old value.
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
