#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "binade/core/ops/formulas.h"

/// Reference values of elementwise ops in long double. The formulas differ from those of the ops. An op without an
/// entry is compared with its own formula in double. This tests f32, 16 bits, ends of rows and broadcasting, but not
/// the formula.
namespace binade::conformance {

using Real = long double;

template <class Op>
struct Reference {
  template <class... X>
  static Real value(const typename Op::Params& p, X... x) {
    return Op::value(static_cast<double>(x)..., p);
  }
};

/// The parameters and the range of inputs with which an op of core/ops/lists.h is tested. Kinks and singularities are
/// outside of the range or between samples.
template <class Op>
struct Sampling {
  static std::vector<typename Op::Params> params() { return {{}}; }
  static constexpr double low = -2, high = 2;
};

inline Real normal_cdf(Real x) { return 0.5L * std::erfc(-x * 0.70710678118654752440084436210485L); }

template <>
struct Reference<ops::Relu> {
  static Real value(ops::NoParams, Real x) { return x > 0 || x != x ? x : 0; }
};
template <>
struct Reference<ops::Gelu> {
  static Real value(ops::NoParams, Real x) { return x * normal_cdf(x); }
};
template <>
struct Reference<ops::GeluTanh> {
  static Real value(ops::NoParams, Real x) {
    const Real u = std::sqrt(2 / 3.14159265358979323846264338327950288L) * (x + 0.044715L * x * x * x);
    return x / (1 + std::exp(-2 * u));  // x (1 + tanh u) / 2, in a form that does not cancel for large negative u
  }
};
template <>
struct Reference<ops::Silu> {
  static Real value(ops::NoParams, Real x) { return x / (1 + std::exp(-x)); }
};
template <>
struct Reference<ops::Sigmoid> {
  static Real value(ops::NoParams, Real x) { return 1 / (1 + std::exp(-x)); }
};
template <>
struct Reference<ops::Tanh> {
  static Real value(ops::NoParams, Real x) { return std::tanh(x); }
};
template <>
struct Reference<ops::Erf> {
  static Real value(ops::NoParams, Real x) { return std::erf(x); }
};
template <>
struct Reference<ops::Exp> {
  static Real value(ops::NoParams, Real x) { return std::exp(x); }
};
template <>
struct Reference<ops::Log> {
  static Real value(ops::NoParams, Real x) { return std::log(x); }
};
template <>
struct Sampling<ops::Log> {
  static std::vector<ops::NoParams> params() { return {{}}; }
  static constexpr double low = 0.1, high = 4;
};
template <>
struct Reference<ops::Softplus> {
  static Real value(ops::NoParams, Real x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
};
template <>
struct Reference<ops::Sqrt> {
  static Real value(ops::NoParams, Real x) { return std::sqrt(x); }
};
template <>
struct Sampling<ops::Sqrt> {
  static std::vector<ops::NoParams> params() { return {{}}; }
  static constexpr double low = 0.1, high = 4;
};
template <>
struct Reference<ops::Pow> {
  static Real value(const ops::Pow::Params& p, Real x) {
    return x != x ? x : std::pow(x, static_cast<Real>(p.exponent));
  }
};
template <>
struct Sampling<ops::Pow> {
  static std::vector<ops::Pow::Params> params() { return {{2}, {3}, {-1}, {0.5}, {1.7}, {0}}; }
  static constexpr double low = 0.1, high = 4;
};
template <>
struct Reference<ops::Square> {
  static Real value(ops::NoParams, Real x) { return x * x; }
};
template <>
struct Reference<ops::Clamp> {
  static Real value(const ops::Clamp::Params& p, Real x) { return x < p.low ? p.low : x > p.high ? p.high : x; }
};
template <>
struct Sampling<ops::Clamp> {
  static std::vector<ops::Clamp::Params> params() {
    return {{-0.5, 0.75}, {0, std::numeric_limits<double>::infinity()}};
  }
  static constexpr double low = -2, high = 2;
};
template <>
struct Reference<ops::Neg> {
  static Real value(ops::NoParams, Real x) { return -x; }
};
template <>
struct Reference<ops::Abs> {
  static Real value(ops::NoParams, Real x) { return x < 0 ? -x : x; }
};

/// Scalars that 16 bits represent exactly, so that the result in f32 is rounded only once.
struct ScalarSampling {
  static std::vector<ops::ScalarParams> params() { return {{1.75}, {-3}}; }
  static constexpr double low = 0.25, high = 2;
};
template <>
struct Sampling<ops::AddScalar> : ScalarSampling {};
template <>
struct Sampling<ops::MulScalar> : ScalarSampling {};
template <>
struct Sampling<ops::DivScalar> : ScalarSampling {};
template <>
struct Sampling<ops::ScalarSub> : ScalarSampling {};
template <>
struct Sampling<ops::ScalarDiv> : ScalarSampling {};
template <>
struct Reference<ops::AddScalar> {
  static Real value(const ops::ScalarParams& p, Real x) { return x + p.scalar; }
};
template <>
struct Reference<ops::MulScalar> {
  static Real value(const ops::ScalarParams& p, Real x) { return x * p.scalar; }
};
template <>
struct Reference<ops::DivScalar> {
  static Real value(const ops::ScalarParams& p, Real x) { return x / p.scalar; }
};
template <>
struct Reference<ops::ScalarSub> {
  static Real value(const ops::ScalarParams& p, Real x) { return p.scalar - x; }
};
template <>
struct Reference<ops::ScalarDiv> {
  static Real value(const ops::ScalarParams& p, Real x) { return p.scalar / x; }
};

template <>
struct Reference<ops::Add> {
  static Real value(ops::NoParams, Real a, Real b) { return a + b; }
};
template <>
struct Reference<ops::Sub> {
  static Real value(ops::NoParams, Real a, Real b) { return a - b; }
};
template <>
struct Reference<ops::Mul> {
  static Real value(ops::NoParams, Real a, Real b) { return a * b; }
};
template <>
struct Reference<ops::Div> {
  static Real value(ops::NoParams, Real a, Real b) { return a / b; }
};
template <>
struct Sampling<ops::Div> {
  static std::vector<ops::NoParams> params() { return {{}}; }
  static constexpr double low = 0.25, high = 2;
};
template <>
struct Reference<ops::Maximum> {
  static Real value(ops::NoParams, Real a, Real b) { return a != a ? a : b != b ? b : a < b ? b : a; }
};
template <>
struct Reference<ops::Minimum> {
  static Real value(ops::NoParams, Real a, Real b) { return a != a ? a : b != b ? b : b < a ? b : a; }
};

// Losses, as functions of one prediction and one target.
template <>
struct Reference<ops::Mse> {
  static Real value(ops::LossParams, Real x, Real t) { return (x - t) * (x - t); }
};
template <>
struct Reference<ops::L1> {
  static Real value(ops::LossParams, Real x, Real t) { return x < t ? t - x : x - t; }
};
template <>
struct Reference<ops::Huber> {
  static Real value(const ops::Huber::Params& p, Real x, Real t) {
    const Real d = x < t ? t - x : x - t;
    return d <= p.delta ? d * d / 2 : p.delta * (d - p.delta / 2);
  }
};
template <>
struct Reference<ops::BceWithLogits> {
  static Real value(const ops::BceWithLogits::Params& p, Real x, Real t) {
    const Real softplus = x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    const Real of_minus = x > 0 ? std::log1p(std::exp(-x)) : std::log1p(std::exp(x)) - x;
    return (1 - t) * softplus + p.pos_weight * t * of_minus;
  }
};
template <>
struct Reference<ops::Bce> {
  static Real value(ops::LossParams, Real x, Real t) { return -(t * std::log(x) + (1 - t) * std::log1p(-x)); }
};
template <>
struct Reference<ops::KlDiv> {
  static Real value(ops::LossParams, Real x, Real t) { return t * (std::log(t) - x); }
};
template <>
struct Sampling<ops::Huber> {
  static std::vector<ops::Huber::Params> params() {
    return {{.delta = 0.5}, {.delta = 1, .reduction = ops::Reduction::kSum}};
  }
};
template <>
struct Sampling<ops::BceWithLogits> {
  static std::vector<ops::BceWithLogits::Params> params() { return {{}, {.pos_weight = 3}}; }
};
template <>
struct Sampling<ops::KlDiv> {
  static std::vector<ops::LossParams> params() { return {{ops::Reduction::kBatchMean}, {ops::Reduction::kSum}}; }
};

}  // namespace binade::conformance
