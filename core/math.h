#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "binade/core/host_device.h"

/// Scalar functions for host and device, in float and double. The float forms are branch-free (arithmetic and selects,
/// no libm, no tables), so that loops over them vectorize on any instruction set. Their error bounds are given in ulp
/// of the float result; all propagate NaN. The double forms serve gradcheck and references and call the C++ library.
///
/// Range reduction is that of Cody and Waite. Polynomials are weighted minimax fits of the functions named above them.
namespace binade::math {

/// Returns |x|, by clearing the sign bit.
template <class C>
BINADE_HD C abs(C x) {
  if constexpr (sizeof(C) == 4)
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffu);
  else
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7fffffffffffffffu);
}
/// Returns |magnitude| with the sign of `sign`. REQUIRES: magnitude >= 0.
BINADE_HD float with_sign(float magnitude, float sign) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) |
                              (std::bit_cast<std::uint32_t>(sign) & 0x80000000u));
}
BINADE_HD double with_sign(double magnitude, double sign) { return std::copysign(magnitude, sign); }

/// Returns the smaller argument, or NaN if either argument is NaN (unlike fmin).
template <class C>
BINADE_HD C minimum(C a, C b) {
  const C lower = a < b ? a : b;  // b if a or b is NaN
  return a != a ? a : lower;
}
template <class C>
BINADE_HD C maximum(C a, C b) {
  const C upper = a > b ? a : b;
  return a != a ? a : upper;
}
/// Returns min(max(x, low), high), or NaN for NaN. REQUIRES: low <= high.
template <class C>
BINADE_HD C clamp(C x, C low, C high) {
  const C raised = x < low ? low : x;
  return raised > high ? high : raised;
}

BINADE_HD float sqrt(float x) { return __builtin_sqrtf(x); }  ///< correctly rounded
BINADE_HD double sqrt(double x) { return __builtin_sqrt(x); }

/// Returns the value at x of the polynomial with these coefficients, from the highest power down.
template <class C, class... Rest>
[[gnu::always_inline]] BINADE_HD C horner(C x, C highest, Rest... rest) {
  C y = highest;
  ((y = y * x + rest), ...);
  return y;
}

/// Returns exp(x + lo), where lo is a small correction that gives the argument more than 24 bits. Error 1 ulp.
/// REQUIRES: -104 <= x <= 89, or NaN.
BINADE_HD float exp_sum(float x, float lo) {
  constexpr float kRound = 0x1.8p23f;  // a float plus kRound has the nearest integer in its low bits
  const float shifted = x * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  float r = x - n * 0.693359375f;  // ln 2 in two parts; the first has 9 bits, so the product is exact
  r = r + n * 2.12194440e-4f;
  r = r + lo;
  // (exp(r) - 1 - r) / r^2
  const float q = horner(r, 1.381459837e-03f, 8.368716898e-03f, 4.166838805e-02f, 1.666652063e-01f, 4.999999345e-01f);
  const float p = (q * r) * r + r + 1.0f;
  // Multiplies by 2^n as two factors, because n is between -150 and 128, and 2^n can be outside the range of float.
  const std::int32_t whole = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const std::int32_t half = whole >> 1;
  const std::int32_t rest = whole - half;
  return p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((rest + 127) << 23);
}
BINADE_HD float exp(float x) { return exp_sum(clamp(x, -104.0f, 89.0f), 0.0f); }
BINADE_HD double exp(double x) { return std::exp(x); }

/// Returns the natural logarithm, with an error of 1 ulp; -inf for 0, NaN for negative numbers.
BINADE_HD float log(float x) {
  const bool tiny = x < 0x1p-126f;
  const float scaled = tiny ? x * 0x1p23f : x;
  // Unsigned, because the subtraction wraps for negative inputs. The mantissa is scaled to [sqrt(1/2), sqrt(2)).
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0f;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  // (log(1 + f) - f + f^2 / 2) / f^3
  const float p = horner(f, 6.746638272e-02f, -1.167565122e-01f, 1.188816297e-01f, -1.240558906e-01f, 1.421955228e-01f,
                         -1.666799584e-01f, 2.000211866e-01f, -2.500000960e-01f, 3.333331260e-01f);
  const float square = f * f;
  float y = f * square * p;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * square;
  const float finite = (f + y) + e * 0.693359375f;
  const float at_zero = x == 0.0f ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  const float above = x < std::numeric_limits<float>::infinity() ? finite : x;  // inf and NaN are returned as they are
  return x <= 0.0f ? at_zero : above;
}
BINADE_HD double log(double x) { return std::log(x); }

/// Returns log(1 + x) for x >= -1/2, with an error of 2 ulp. `lost` corrects the error of rounding 1 + x.
BINADE_HD float log1p(float x) {
  const float u = 1.0f + x;
  const float lost = (x - (u - 1.0f)) / u;
  return log(u) + (x < std::numeric_limits<float>::infinity() ? lost : 0.0f);
}
BINADE_HD double log1p(double x) { return std::log1p(x); }

/// Returns exp(x) - 1, with an error of 3 ulp, by the series of exp if |x| < 1/2.
BINADE_HD float expm1(float x) {
  const float near = x * horner(x, 1.0f / 40320, 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f);
  const float far = exp(x) - 1.0f;
  return abs(x) < 0.5f ? near : far;
}
BINADE_HD double expm1(double x) { return std::expm1(x); }

/// Returns the hyperbolic tangent, with an error of 2 ulp.
BINADE_HD float tanh(float x) {
  const float a = abs(x);
  const float s = x * x;
  // (tanh(x) / x - 1) / x^2
  const float p = horner(s, -5.515163244e-03f, 2.046941921e-02f, -5.368802286e-02f, 1.333083034e-01f,
                         -3.333325985e-01f);
  const float near = x + x * (s * p);
  const float far = with_sign(1.0f - 2.0f / (exp(2.0f * a) + 1.0f), x);
  return a < 0.65f ? near : far;
}
BINADE_HD double tanh(double x) { return std::tanh(x); }

/// Returns 1 / (1 + exp(-x)), with an error of 3 ulp, computed from exp(-|x|) to avoid overflow and cancellation.
template <class C>
BINADE_HD C sigmoid(C x) {
  const C e = exp(-abs(x));
  return (x >= 0 ? C(1) : (x == x ? e : x)) / (1 + e);
}

/// Returns log(1 + exp(x)), with an error of 3 ulp.
template <class C>
BINADE_HD C softplus(C x) {
  const C positive = x < 0 ? C(0) : x;
  return positive + log1p(exp(-abs(x)));
}

/// Returns Phi(-a) exp(a^2 / 2) for 0 <= a <= 15, where Phi is the normal distribution function: the tail of Phi
/// without its exponential factor. The result falls slowly, from 0.5 at 0 to 0.0266 at 15, so that its error is only 2
/// ulp.
BINADE_HD float scaled_normal_tail(float a) {
  const float t = 4.0f / (a + 4.0f);
  const float p = horner(t, 1.695148893e-02f, -6.486594317e-02f, 5.667350626e-02f, 2.152045155e-02f, 1.867139247e-02f,
                         8.333030817e-02f, 7.320002209e-02f, 9.524599998e-02f, 9.952673375e-02f, 9.974604433e-02f);
  return p * t;
}

/// Phi(-|x|) and exp(-x^2 / 2), where Phi is the normal distribution function. The float form limits |x| to 14.4, where
/// Phi(-|x|) is 0 in float and the exponential is nearly 0.
template <class C>
struct NormalTail {
  C probability{};
  C density{};  ///< exp(-x^2 / 2): the normal density times sqrt(2 pi)
};
BINADE_HD NormalTail<float> normal_tail(float x) {
  const float magnitude = abs(x);
  // x is limited here and not a second time inside exp(). With both limits, GCC computes two variants and selects one;
  // the unused variant is subnormal in every lane, which is 5 times slower.
  const float a = magnitude > 14.4f ? 14.4f : magnitude;
  // Computes a^2 / 2 with more than 24 bits. `head` has the upper 12 bits of a, so its square is exact.
  const float head = std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) & 0xfffff000u);
  const float density = exp_sum(-0.5f * head * head, -0.5f * (a - head) * (a + head));
  return {scaled_normal_tail(a) * density, density};
}
BINADE_HD NormalTail<double> normal_tail(double x) {
  const double a = abs(x);
  return {0.5 * std::erfc(a * 0.70710678118654752440), std::exp(-0.5 * a * a)};
}

/// Returns x Phi(x), with an error of 4 ulp unless the result is subnormal. No subtraction is used, so that the
/// relative accuracy is kept for negative x.
template <class C>
BINADE_HD C gelu(C x) {
  const C tail = normal_tail(x).probability, rest = 1 - tail;
  return x * (x >= 0 ? rest : tail);
}
/// Returns the derivative of gelu(): Phi(x) + x phi(x), where phi is the normal density.
template <class C>
BINADE_HD C gelu_derivative(C x) {
  const NormalTail<C> tail = normal_tail(x);
  const C held = clamp(x, C(-40), C(40));
  const C rest = 1 - tail.probability;
  return (x >= 0 ? rest : tail.probability) + held * (tail.density * C(0.39894228040143267794));
}

/// Returns x / 2 (1 + tanh(u)), where u = sqrt(2 / pi) (x + 0.044715 x^3), computed as x sigmoid(2 u) to avoid
/// cancellation for negative x.
template <class C>
BINADE_HD C gelu_tanh(C x) {
  const C twice_u = C(1.5957691216057308) * (x + C(0.044715) * x * x * x);
  const C e = exp(-abs(twice_u));
  return x * (x >= 0 ? C(1) : e) / (1 + e);
}
template <class C>
BINADE_HD C gelu_tanh_derivative(C x) {
  const C held = clamp(x, C(-40), C(40));  // for larger |x|, s (1 - s) is 0, and 0 times infinity would be NaN
  const C square = held * held;
  const C e = exp(-abs(C(1.5957691216057308) * (held + C(0.044715) * held * square)));
  const C denominator = 1 + e;
  const C s = (x >= 0 ? C(1) : e) / denominator;
  return s + held * (e / (denominator * denominator)) * (C(1.5957691216057308) * (1 + C(0.134145) * square));
}

/// Returns x sigmoid(x), with an error of 4 ulp.
template <class C>
BINADE_HD C silu(C x) {
  const C e = exp(-abs(x));
  return x * (x >= 0 ? C(1) : e) / (1 + e);
}
template <class C>
BINADE_HD C silu_derivative(C x) {
  const C held = clamp(x, C(-800), C(800));
  const C e = exp(-abs(held));
  const C denominator = 1 + e;
  return (x >= 0 ? C(1) : e) / denominator + held * (e / (denominator * denominator));
}

/// Returns the error function, with an error of 4 ulp.
BINADE_HD float erf(float x) {
  const float a = abs(x);
  const float s = x * x;
  // erf(x) / x
  const float p = horner(s, 7.853860896e-05f, -8.010193486e-04f, 5.188327670e-03f, -2.685381193e-02f, 1.128358515e-01f,
                         -3.761262582e-01f, 1.128379166e+00f);
  const float far = with_sign(1.0f - 2.0f * normal_tail(a * 1.41421356237f).probability, x);
  return a <= 1.0f ? x * p : far;
}
BINADE_HD double erf(double x) { return std::erf(x); }

namespace detail {

/// Returns log2 of a float value that is given as a double, with an error of 1e-13. The logarithm of the mantissa m is
/// computed as 2 atanh((m - 1) / (m + 1)) / ln 2. REQUIRES: x >= 0 or NaN.
BINADE_HD double log2_of_float(double x) {
  const std::int64_t bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;
  const double m = std::bit_cast<double>(bits - (exponent << 52));
  const double t = (m - 1) / (m + 1);
  const double s = t * t;
  const double p = horner(s, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0);
  const double finite = static_cast<double>(exponent) + t * p * 2.8853900817779268;
  const double above = x < std::numeric_limits<double>::infinity() ? finite : x;
  return x == 0 ? -std::numeric_limits<double>::infinity() : above;
}

/// Returns 2^x, with a relative error of 1e-12, if the result is in the range of float. Otherwise returns about 2^300
/// or 2^-300, which round to inf or 0 in float.
BINADE_HD double exp2_for_float(double x) {
  constexpr double kRound = 0x1.8p52;
  const double held = clamp(x, -300.0, 300.0);
  const double shifted = held + kRound;
  const double r = (held - (shifted - kRound)) * 0.69314718055994530942;
  const double p = horner(r, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                          1.0 / 6, 0.5, 1.0, 1.0);
  const std::int64_t n = std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(kRound);
  return p * std::bit_cast<double>((n + 1023) << 52);
}

}  // namespace detail

/// Returns x^p, with an error of 1 ulp. The float form computes in double, because p log x needs more than 24 bits. NaN
/// stays NaN even for p = 0 (C's pow gives 1); otherwise like C's pow. REQUIRES: p is finite.
BINADE_HD float pow(float x, double p) {
  const bool whole = p == static_cast<double>(static_cast<std::int64_t>(clamp(p, -0x1p53, 0x1p53))) || abs(p) >= 0x1p53;
  const bool odd = abs(p) < 0x1p53 && whole && (static_cast<std::int64_t>(clamp(p, -0x1p53, 0x1p53)) & 1) != 0;
  const double magnitude = detail::exp2_for_float(p * detail::log2_of_float(static_cast<double>(abs(x))));
  const float y = static_cast<float>(p == 0 ? 1.0 : magnitude);
  const float negated = odd ? -y : y;
  const bool limit = x == 0.0f || x == -std::numeric_limits<float>::infinity();
  const float below = whole || limit ? negated : std::numeric_limits<float>::quiet_NaN();
  const bool minus = std::bit_cast<std::int32_t>(x) < 0;
  const float number = minus ? below : y;
  return x == x ? number : x;
}
BINADE_HD double pow(double x, double p) { return x == x ? std::pow(x, p) : x; }

}  // namespace binade::math
