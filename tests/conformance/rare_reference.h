#pragma once

#include "tests/conformance/reference.h"

/// References (reference.h) for the rare ops (decision 0065) and the activations.
namespace binade::conformance {

template <class Op>
struct From {
  static std::vector<typename Op::Params> params() { return {{}}; }
};
/// Draws samples from [kLow / 4, kHigh / 4].
template <class Op, int kLow, int kHigh>
struct Quarters : From<Op> {
  static constexpr double low = kLow / 4.0, high = kHigh / 4.0;
};

template <>
struct Reference<ops::Sin> {
  static Real value(ops::NoParams, Real x) { return std::sin(x); }
};
template <>
struct Reference<ops::Cos> {
  static Real value(ops::NoParams, Real x) { return std::cos(x); }
};
template <>
struct Reference<ops::Tan> {
  static Real value(ops::NoParams, Real x) { return std::tan(x); }
};
template <>
struct Sampling<ops::Tan> : Quarters<ops::Tan, -5, 5> {};
template <>
struct Reference<ops::Asin> {
  static Real value(ops::NoParams, Real x) { return std::asin(x); }
};
template <>
struct Sampling<ops::Asin> : Quarters<ops::Asin, -3, 3> {};
template <>
struct Reference<ops::Acos> {
  static Real value(ops::NoParams, Real x) { return std::acos(x); }
};
template <>
struct Sampling<ops::Acos> : Quarters<ops::Acos, -3, 3> {};
template <>
struct Reference<ops::Atan> {
  static Real value(ops::NoParams, Real x) { return std::atan(x); }
};
template <>
struct Reference<ops::Sinh> {
  static Real value(ops::NoParams, Real x) { return std::sinh(x); }
};
template <>
struct Reference<ops::Cosh> {
  static Real value(ops::NoParams, Real x) { return std::cosh(x); }
};
template <>
struct Reference<ops::Asinh> {
  static Real value(ops::NoParams, Real x) { return std::asinh(x); }
};
template <>
struct Reference<ops::Acosh> {
  static Real value(ops::NoParams, Real x) { return std::acosh(x); }
};
template <>
struct Sampling<ops::Acosh> : Quarters<ops::Acosh, 5, 16> {};
template <>
struct Reference<ops::Atanh> {
  static Real value(ops::NoParams, Real x) { return std::atanh(x); }
};
template <>
struct Sampling<ops::Atanh> : Quarters<ops::Atanh, -3, 3> {};
template <>
struct Reference<ops::Log1p> {
  static Real value(ops::NoParams, Real x) { return std::log1p(x); }
};
template <>
struct Sampling<ops::Log1p> : Quarters<ops::Log1p, -2, 16> {};
template <>
struct Reference<ops::Expm1> {
  static Real value(ops::NoParams, Real x) { return std::expm1(x); }
};
template <>
struct Reference<ops::Log2> {
  static Real value(ops::NoParams, Real x) { return std::log2(x); }
};
template <>
struct Sampling<ops::Log2> : Quarters<ops::Log2, 1, 16> {};
template <>
struct Reference<ops::Log10> {
  static Real value(ops::NoParams, Real x) { return std::log10(x); }
};
template <>
struct Sampling<ops::Log10> : Quarters<ops::Log10, 1, 16> {};
template <>
struct Reference<ops::Exp2> {
  static Real value(ops::NoParams, Real x) { return std::exp2(x); }
};
template <>
struct Reference<ops::Rsqrt> {
  static Real value(ops::NoParams, Real x) { return 1 / std::sqrt(x); }
};
template <>
struct Sampling<ops::Rsqrt> : Quarters<ops::Rsqrt, 1, 16> {};
/// Computed by bisection. For a = |x| < 1/2, the result is between 0.88 a and a.
template <>
struct Reference<ops::Erfinv> {
  static Real value(ops::NoParams, Real x) {
    const Real a = std::fabs(x);
    if (a < 1e-6L) return x * 0.88622692545275801364908374167057L;  // the next term is 1e-12 times smaller
    if (!(a < 1)) return a == 1 ? std::copysign(std::numeric_limits<Real>::infinity(), x) : std::nanl("");
    Real low = 0.88L * a, high = a < 0.5L ? a : 16;
    for (int i = 0; i < 100; ++i) {
      const Real middle = (low + high) / 2;
      (a < 0.5L ? std::erf(middle) < a : std::erfc(middle) > 1 - a) ? low = middle : high = middle;
    }
    return std::copysign(low, x);
  }
};
template <>
struct Sampling<ops::Erfinv> : Quarters<ops::Erfinv, -3, 3> {};
template <>
struct Reference<ops::Lgamma> {
  static Real value(ops::NoParams, Real x) { return std::lgamma(x); }
};
template <>
struct Sampling<ops::Lgamma> : Quarters<ops::Lgamma, 1, 16> {};
/// Uses the recurrence to shift x above 60. There, four terms of the asymptotic series are sufficient.
template <>
struct Reference<ops::Digamma> {
  static Real value(ops::NoParams, Real x) {
    constexpr Real kPi = 3.14159265358979323846264338327950288L;
    if (x == 0) return -std::copysign(std::numeric_limits<Real>::infinity(), x);
    if (x < 0 && x == std::floor(x)) return std::nanl("");
    if (x < 0) return value({}, 1 - x) - kPi / std::tan(kPi * (x - std::rint(x)));
    Real y = 0;
    for (; x < 60; ++x) y -= 1 / x;
    const Real s = 1 / (x * x);
    return y + std::log(x) - 1 / (2 * x) - s / 12 + s * s / 120 - s * s * s / 252 + s * s * s * s / 240;
  }
};
template <>
struct Sampling<ops::Digamma> : Quarters<ops::Digamma, 2, 16> {};

template <>
struct Reference<ops::Erfc> {
  static Real value(ops::NoParams, Real x) { return std::erfc(x); }
};
template <>
struct Reference<ops::Sinc> {
  static Real value(ops::NoParams, Real x) {
    constexpr Real kPi = 3.14159265358979323846264338327950288L;
    if (x == std::floor(x)) return x == 0 ? 1 : std::isinf(x) ? std::nanl("") : 0 * x;
    return std::sin(kPi * x) / (kPi * x);
  }
};
/// I0 or I1 as the mean of exp(x cos t) cos(order t) for t in [0, pi]. The trapezoidal rule computes it to all digits.
/// For order 1 and x near 0, the terms cancel; there, three terms of the power series are used.
template <int kOrder>
Real bessel_integral(Real x) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  if (x != x || std::fabs(x) > 1000) return x != x ? x : kOrder == 0 ? kInfinity : std::copysign(kInfinity, x);
  if (kOrder == 1 && std::fabs(x) < 1e-3L) return x / 2 * (1 + x * x / 8 * (1 + x * x / 24));
  constexpr int kParts = 80;
  static const std::vector<Real> cosines = [] {
    std::vector<Real> all;
    for (int i = 0; i < kParts; ++i) all.push_back(std::cos(3.14159265358979323846264338327950288L * i / kParts));
    return all;
  }();
  Real y = (std::exp(x) + (kOrder == 0 ? 1 : -1) * std::exp(-x)) / 2;
  for (int i = 1; i < kParts; ++i) {
    const Real c = cosines[static_cast<std::size_t>(i)];
    y += std::exp(x * c) * (kOrder == 0 ? 1 : c);
  }
  return y / kParts;
}
template <>
struct Reference<ops::I0> {
  static Real value(ops::NoParams, Real x) { return bessel_integral<0>(x); }
};
template <>
struct Reference<ops::I1> {
  static Real value(ops::NoParams, Real x) { return bessel_integral<1>(x); }
};
/// For n = 2 and 3 only. Shifts x above 60, where three terms of the Euler-Maclaurin series are sufficient. For
/// negative x, uses the reflection formula with a derivative of the cotangent.
template <>
struct Reference<ops::Polygamma> {
  static Real value(const ops::Polygamma::Params& p, Real x) {
    constexpr Real kPi = 3.14159265358979323846264338327950288L;
    const Real s = static_cast<Real>(p.n) + 1, factor = p.n == 2 ? -2 : 6;
    if (x <= 0 && x == std::floor(x)) return factor * std::numeric_limits<Real>::infinity();
    if (x < 0) {
      const Real sine = std::sin(kPi * (x - std::rint(x))), square = 1 / (sine * sine);
      const Real cotangent = std::cos(kPi * (x - std::rint(x))) / sine;
      if (p.n == 2) return value(p, 1 - x) - 2 * kPi * kPi * kPi * cotangent * square;
      return 2 * kPi * kPi * kPi * kPi * square * (square + 2 * cotangent * cotangent) - value(p, 1 - x);
    }
    if (x > 1e15L) return factor * std::pow(x, 1 - s) / (s - 1);
    Real y = 0;
    for (; x < 60; ++x) y += std::pow(x, -s);
    const Real r = 1 / (x * x), first = s / x, third = first * (s + 1) * (s + 2) * r,
               fifth = third * (s + 3) * (s + 4) * r;
    return factor * (y + std::pow(x, -s) * (x / (s - 1) + 0.5L + first / 12 - third / 720 + fifth / 30240));
  }
};
template <>
struct Sampling<ops::Polygamma> {
  static std::vector<ops::Polygamma::Params> params() { return {{2}, {3}}; }
  static constexpr double low = 0.5, high = 4;
};

template <>
struct Reference<ops::Sign> {
  static Real value(ops::NoParams, Real x) { return x != x ? x : static_cast<Real>((x > 0) - (x < 0)); }
};
template <>
struct Reference<ops::Floor> {
  static Real value(ops::NoParams, Real x) { return std::floor(x); }
};
template <>
struct Reference<ops::Ceil> {
  static Real value(ops::NoParams, Real x) { return std::ceil(x); }
};
template <>
struct Reference<ops::Trunc> {
  static Real value(ops::NoParams, Real x) { return x < 0 ? std::ceil(x) : std::floor(x); }
};
/// Rounds half to even.
template <>
struct Reference<ops::Round> {
  static Real value(ops::NoParams, Real x) {
    const Real down = std::floor(x), rest = x - down;
    if (rest != 0.5L) return rest < 0.5L ? down : rest == rest ? down + 1 : x;
    return std::fmod(down, 2.0L) == 0 ? down : down + 1;
  }
};
template <>
struct Reference<ops::Frac> {
  static Real value(ops::NoParams, Real x) { return x - (x < 0 ? std::ceil(x) : std::floor(x)); }
};
template <>
struct Reference<ops::NanToNum> {
  static Real value(const ops::NanToNum::Params& p, Real x) {
    return std::isnan(x) ? p.nan : std::isinf(x) ? (x > 0 ? p.posinf : p.neginf) : x;
  }
};
template <>
struct Sampling<ops::NanToNum> {
  static std::vector<ops::NanToNum::Params> params() { return {{0.5, 100, -96}}; }
  static constexpr double low = -2, high = 2;
  static constexpr bool nan_must_show = false;
};

template <>
struct Reference<ops::LeakyRelu> {
  static Real value(const ops::LeakyRelu::Params& p, Real x) { return x > 0 ? x : static_cast<Real>(p.slope) * x; }
};
template <>
struct Sampling<ops::LeakyRelu> {
  static std::vector<ops::LeakyRelu::Params> params() { return {{}, {0.25}}; }
  static constexpr double low = -2, high = 2;
};
template <>
struct Reference<ops::Elu> {
  static Real value(const ops::Elu::Params& p, Real x) { return x > 0 ? x : p.alpha * std::expm1(x); }
};
/// alpha is 0.6f, because for tiny x the result is alpha x, and with some alphas (0.75, 0.7f) this product is very
/// close to a tie of bf16 for one of the 128 significands. There, rounding to f32 first would change the bf16 result.
template <>
struct Sampling<ops::Elu> {
  static std::vector<ops::Elu::Params> params() { return {{}, {0.6f}}; }
  static constexpr double low = -2, high = 2;
};
template <>
struct Reference<ops::Hardswish> {
  static Real value(ops::NoParams, Real x) { return x * (std::min(std::max(x + 3, 0.0L), 6.0L) / 6); }
};
template <>
struct Sampling<ops::Hardswish> : Quarters<ops::Hardswish, -17, 17> {};
template <>
struct Reference<ops::Mish> {
  static Real value(ops::NoParams, Real x) {
    return x * std::tanh(x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)));
  }
};
template <>
struct Reference<ops::Selu> {
  static Real value(ops::NoParams, Real x) {
    return 1.0507009873554804934193349852946L * (x > 0 ? x : 1.6732632423543772848170429916717L * std::expm1(x));
  }
};
template <>
struct Reference<ops::Celu> {
  static Real value(const ops::Celu::Params& p, Real x) { return x > 0 ? x : p.alpha * std::expm1(x / p.alpha); }
};
template <>
struct Sampling<ops::Celu> {
  static std::vector<ops::Celu::Params> params() { return {{}, {0.75}}; }
  static constexpr double low = -2, high = 2;
};
template <>
struct Reference<ops::SoftplusBeta> {
  static Real value(const ops::SoftplusBeta::Params& p, Real x) {
    const Real z = p.beta * x;
    if (z > p.threshold) return x;
    return (z > 0 ? z + std::log1p(std::exp(-z)) : std::log1p(std::exp(z))) / p.beta;
  }
};
template <>
struct Sampling<ops::SoftplusBeta> {
  static std::vector<ops::SoftplusBeta::Params> params() { return {{2, 1.3}, {-1.5, 20}}; }
  static constexpr double low = -2, high = 2;
};
template <>
struct Reference<ops::Hardsigmoid> {
  static Real value(ops::NoParams, Real x) { return x != x ? x : x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6; }
};
template <>
struct Sampling<ops::Hardsigmoid> : Quarters<ops::Hardsigmoid, -17, 17> {};
template <>
struct Reference<ops::Hardtanh> {
  static Real value(const ops::Hardtanh::Params& p, Real x) { return x < p.low ? p.low : x > p.high ? p.high : x; }
};
template <>
struct Sampling<ops::Hardtanh> {
  static std::vector<ops::Hardtanh::Params> params() { return {{}, {0, 6}}; }
  static constexpr double low = -2, high = 2;
};
template <>
struct Reference<ops::Logsigmoid> {
  static Real value(ops::NoParams, Real x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }
};
template <>
struct Reference<ops::Hardshrink> {
  static Real value(const ops::Hardshrink::Params& p, Real x) { return std::fabs(x) <= p.lambda ? 0 : x; }
};
template <>
struct Reference<ops::Softshrink> {
  static Real value(const ops::Softshrink::Params& p, Real x) {
    if (x != x) return x;
    return x > p.lambda ? x - p.lambda : x < -p.lambda ? x + p.lambda : 0;
  }
};
template <>
struct Reference<ops::Tanhshrink> {
  static Real value(ops::NoParams, Real x) {
    // Two terms of the power series: x - tanh(x) would lose all digits by cancellation, also in long double.
    if (std::fabs(x) < 1e-3L) return x * x * x / 3 - 2 * x * x * x * x * x / 15;
    return x - std::tanh(x);
  }
};
template <>
struct Reference<ops::Threshold> {
  static Real value(const ops::Threshold::Params& p, Real x) { return x <= p.threshold ? p.value : x; }
};
template <>
struct Sampling<ops::Threshold> {
  static std::vector<ops::Threshold::Params> params() { return {{0.25, -1}}; }
  static constexpr double low = -2, high = 2;
};

template <>
struct Reference<ops::Atan2> {
  static Real value(ops::NoParams, Real a, Real b) { return std::atan2(a, b); }
};
template <>
struct Reference<ops::TensorPow> {
  static Real value(ops::NoParams, Real a, Real b) { return a != a || b != b ? std::nanl("") : std::pow(a, b); }
};
template <>
struct Sampling<ops::TensorPow> : Quarters<ops::TensorPow, 1, 8> {};
template <>
struct Reference<ops::Fmod> {
  static Real value(ops::NoParams, Real a, Real b) { return std::fmod(a, b); }
};
template <>
struct Sampling<ops::Fmod> : Quarters<ops::Fmod, 1, 8> {};
/// Not right if both operands are negative; the samples are positive. tests/conformance/whole_test.cpp tests all signs.
template <>
struct Reference<ops::Remainder> {
  static Real value(ops::NoParams, Real a, Real b) {
    const Real r = std::fmod(a, b);
    return r < 0 ? r + b : b < 0 && r > 0 ? r + b : r;
  }
};
template <>
struct Sampling<ops::Remainder> : Quarters<ops::Remainder, 1, 8> {};
template <>
struct Reference<ops::FloorDivide> {
  static Real value(ops::NoParams, Real a, Real b) {
    if (b == 0) return a / b;
    if (std::isinf(b) && std::isfinite(a)) return a != 0 && (a < 0) != (b < 0) ? -1 : 0;
    return (a - Reference<ops::Remainder>::value({}, a, b)) / b;
  }
};
template <>
struct Sampling<ops::FloorDivide> : Quarters<ops::FloorDivide, 1, 8> {};
template <>
struct Reference<ops::Hypot> {
  static Real value(ops::NoParams, Real a, Real b) { return std::sqrt(a * a + b * b); }
};
template <>
struct Reference<ops::Copysign> {
  static Real value(ops::NoParams, Real a, Real b) { return std::copysign(a, b); }
};
template <>
struct Sampling<ops::Copysign> : Quarters<ops::Copysign, -8, 8> {
  static constexpr bool poison = false;  // converting a NaN to another dtype may lose its sign
};
template <>
struct Reference<ops::LogAddExp> {
  static Real value(ops::NoParams, Real a, Real b) {
    if (a == b) return a + std::log(2.0L);
    return (a > b || a != a ? a : b) + std::log1p(std::exp(-std::fabs(a - b)));
  }
};
template <>
struct Reference<ops::Xlogy> {
  static Real value(ops::NoParams, Real a, Real b) { return a == 0 && b == b ? 0 : a * std::log(b); }
};
template <>
struct Sampling<ops::Xlogy> : Quarters<ops::Xlogy, 1, 8> {};
template <>
struct Reference<ops::Prelu> {
  static Real value(ops::NoParams, Real a, Real b) { return a > 0 ? a : a * b; }
};
template <>
struct Sampling<ops::Prelu> : Quarters<ops::Prelu, -8, 8> {
  static constexpr bool nan_must_show = false;
};
template <>
struct Reference<ops::NormSlope> {
  static Real value(const ops::NormSlope::Params& p, Real a, Real b) {
    if (b == 0) return 0;
    if (p.p == 2) return a / b;
    return std::copysign(std::pow(std::fabs(a) / b, static_cast<Real>(p.p) - 1), a);
  }
};
template <>
struct Sampling<ops::NormSlope> : Quarters<ops::NormSlope, 1, 8> {};

}  // namespace binade::conformance
