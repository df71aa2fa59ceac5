#pragma once

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"

/// Elementwise ops of one input x with result y; gx and gy are the gradients of the loss with respect to x and y. Each
/// op computes in float (double for f64) for any stored dtype, rounds once and propagates NaN. A new op needs a struct
/// here, its name in core/ops/lists.h, and a function in autograd/functions/elementwise.h.
namespace binade::ops {

/// y = max(x, 0); relu(NaN) = NaN. gx = gy if y > 0, else 0.
struct Relu : Unary<Relu> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "relu", .numerics = kRoundedOnce});
  static constexpr Saves saves = Saves::kOutput;
  using Exact = exact::Relu;
  BINADE_HD static auto value(auto x, const Params&) { return x <= 0 ? 0 : x; }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return y <= 0 ? 0 : gy; }
};

/// y = x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel, 2016). gx = gy (Phi(x) + x phi(x)).
/// For negative x the relative accuracy is kept down to the smallest normal number. gelu(-inf) = NaN, as -inf * 0 is.
struct Gelu : Unary<Gelu> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "gelu", .numerics = {.ulp_f32 = 8}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::gelu(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * math::gelu_derivative(x); }
};

/// y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): the approximation that GPT-2 was trained with. In float
/// the error is up to 256 ulp for x < -9, where rounding of the argument of exp is amplified, and 4 ulp near 0.
struct GeluTanh : Unary<GeluTanh> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "gelu_tanh", .numerics = {.ulp_f32 = 256}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::gelu_tanh(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * math::gelu_tanh_derivative(x); }
};

/// y = x sigmoid(x). gx = gy s (1 + x (1 - s)), s = sigmoid(x). The error is up to 64 ulp if exp(x) is subnormal
/// (x < -87).
struct Silu : Unary<Silu> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "silu", .numerics = {.ulp_f32 = 64}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::silu(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * math::silu_derivative(x); }
};

/// y = 1 / (1 + exp(-x)). gx = gy y (1 - y).
struct Sigmoid : Unary<Sigmoid> {
  static constexpr OpInfo info = detail::unary_info(
      OpInfo{.name = "sigmoid", .numerics = {.ulp_f32 = 3}, .saturates = true});
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return math::sigmoid(x); }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return gy * y * (1 - y); }
};

/// y = tanh(x). gx = gy (1 - y^2).
struct Tanh : Unary<Tanh> {
  static constexpr OpInfo info = detail::unary_info(
      OpInfo{.name = "tanh", .numerics = {.ulp_f32 = 2}, .saturates = true});
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return math::tanh(x); }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return gy * (1 - y) * (1 + y); }
};

/// y = erf(x). gx = gy 2 / sqrt(pi) exp(-x^2).
struct Erf : Unary<Erf> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "erf", .numerics = {.ulp_f32 = 4}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::erf(x); }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params&) {
    return gy * (C(1.12837916709551257390) * math::exp(-x * x));
  }
};

/// y = exp(x). gx = gy y. Overflows f32 above 88.72.
struct Exp : Unary<Exp> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "exp",
                                                           .precision = PrecisionClass::kFull,
                                                           .numerics = {.safe_high = 88.72, .ulp_f32 = 1},
                                                           .saturates = true});
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return math::exp(x); }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return gy * y; }
};

/// y = log(x): -inf at 0, NaN for negative x. gx = gy / x.
struct Log : Unary<Log> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "log",
                                                           .precision = PrecisionClass::kFull,
                                                           .numerics = {.safe_low = 0x1p-149, .ulp_f32 = 1},
                                                           .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::log(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy / x; }
};

/// y = log(1 + exp(x)). gx = gy sigmoid(x).
struct Softplus : Unary<Softplus> {
  static constexpr OpInfo info = detail::unary_info(
      OpInfo{.name = "softplus", .precision = PrecisionClass::kFull, .numerics = {.ulp_f32 = 3}, .saturates = true});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::softplus(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * math::sigmoid(x); }
};

/// y = sqrt(x), correctly rounded; NaN for negative x. gx = gy / (2 y), infinite at 0.
struct Sqrt : Unary<Sqrt> {
  static constexpr OpInfo info = detail::unary_info(
      OpInfo{.name = "sqrt",
             .precision = PrecisionClass::kFull,
             .numerics = {.safe_low = 0, .ulp_f32 = 0.5, .ulp_half = 0.5},
             .singularities = {{.input = 0, .at = 0, .derivative_only = true}}});
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return math::sqrt(x); }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return gy / (2 * y); }
};

/// y = x^exponent. gx = gy exponent x^(exponent - 1), 0 for exponent 0. NaN for a negative x with a fractional
/// exponent. Throws ArgumentError if the exponent is not finite.
struct Pow : Unary<Pow> {
  struct Params {
    double exponent = 2;
  };
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "pow",
                                                           .precision = PrecisionClass::kFull,
                                                           .numerics = {.ulp_f32 = 1},
                                                           .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kInput;
  static void check_params(const Params& p) {
    check<ArgumentError>(p.exponent - p.exponent == 0, "{}: wanted a finite exponent, got {}", where(info.name),
                         p.exponent);
  }
  BINADE_HD static auto value(auto x, const Params& p) { return math::pow(x, p.exponent); }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params& p) {
    const C derivative = C(p.exponent) * math::pow(x, p.exponent - 1);
    return p.exponent == 0 && x == x ? C(0) : gy * derivative;
  }
};

/// y = x^2, correctly rounded. gx = gy 2 x.
struct Square : Unary<Square> {
  static constexpr OpInfo info = detail::unary_info(
      OpInfo{.name = "square",
             .precision = PrecisionClass::kFull,
             .numerics = {.safe_low = -0x1p63, .safe_high = 0x1p63, .ulp_f32 = 0.5, .ulp_half = 0.5}});
  static constexpr Saves saves = Saves::kInput;
  using Exact = exact::Square;
  BINADE_HD static auto value(auto x, const Params&) { return x * x; }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * (2 * x); }
};

/// y = min(max(x, low), high), with bounds rounded to float; clamp(NaN) = NaN. gx = gy if low <= x <= high, else 0.
/// Throws ArgumentError unless low <= high.
struct Clamp : Unary<Clamp> {
  struct Params {
    double low = 0;
    double high = 1;
  };
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "clamp", .numerics = kRoundedOnce});
  static constexpr Saves saves = Saves::kInput;
  static void check_params(const Params& p) {
    check<ArgumentError>(p.low <= p.high, "{}: wanted low <= high, got low {} and high {}", where(info.name), p.low,
                         p.high);
  }
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    return math::clamp(x, C(p.low), C(p.high));
  }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params& p) {
    const C above = x > C(p.high) ? C(0) : gy;
    return x < C(p.low) ? C(0) : above;
  }
};

/// y = -x.
struct Neg : Unary<Neg> {
  static constexpr OpInfo info = detail::unary_info(
      OpInfo{.name = "neg", .numerics = kRoundedOnce, .carries_masks = true});
  static constexpr Saves saves = Saves::kNothing;
  using Exact = exact::Neg;
  BINADE_HD static auto value(auto x, const Params&) { return -x; }
  BINADE_HD static auto gradient(auto, auto gy, const Params&) { return -gy; }
};

/// y = |x|. gx = gy sign(x), 0 at 0.
struct Abs : Unary<Abs> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "abs", .numerics = kRoundedOnce});
  static constexpr Saves saves = Saves::kInput;
  using Exact = exact::Abs;
  BINADE_HD static auto value(auto x, const Params&) { return math::abs(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) {
    const auto signed_gy = x < 0 ? -gy : gy;
    return x == 0 ? 0 : signed_gy;
  }
};

/// y = x for x > 0, else slope x. gx = gy, or slope gy. Throws ArgumentError if the slope is not finite.
struct LeakyRelu : Unary<LeakyRelu> {
  struct Params {
    double slope = 0.01;
  };
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "leaky_relu", .numerics = {.ulp_f32 = 1}});
  static constexpr Saves saves = Saves::kInput;
  static void check_params(const Params& p) {
    check<ArgumentError>(p.slope - p.slope == 0, "{}: wanted a finite slope, got {}", where(info.name), p.slope);
  }
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    const C below = C(p.slope) * x;
    return x > 0 ? x : below;
  }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params& p) {
    const C below = C(p.slope) * gy;
    return x > 0 ? gy : below;
  }
};

/// y = x for x > 0, else alpha (exp(x) - 1) (Clevert et al., 2016). gx = gy, or gy alpha exp(x). Throws ArgumentError
/// if alpha is not finite.
struct Elu : Unary<Elu> {
  struct Params {
    double alpha = 1;
  };
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "elu", .numerics = {.ulp_f32 = 4}});
  static constexpr Saves saves = Saves::kInput;
  static void check_params(const Params& p) {
    check<ArgumentError>(p.alpha - p.alpha == 0, "{}: wanted a finite alpha, got {}", where(info.name), p.alpha);
  }
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    const C below = C(p.alpha) * math::expm1(x > 0 ? C(0) : x);
    return x > 0 ? x : below;
  }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params& p) {
    const C below = gy * (C(p.alpha) * math::exp(x > 0 ? C(0) : x));
    return x > 0 ? gy : below;
  }
};

/// y = x min(max(x + 3, 0), 6) / 6 (Howard et al., 2019). gx = gy (2 x + 3) / 6 for -3 < x < 3, gy above, 0 below.
struct Hardswish : Unary<Hardswish> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "hardswish", .numerics = {.ulp_f32 = 3}});
  static constexpr Saves saves = Saves::kInput;
  template <class C>
  BINADE_HD static C value(C x, const Params&) {
    return x * (math::clamp(x + 3, C(0), C(6)) / 6);
  }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params&) {
    const C between = gy * ((2 * x + 3) / 6);
    const C above = x < 3 ? between : gy;
    return x <= -3 ? C(0) : above;
  }
};

/// y = x tanh(log(1 + exp(x))) (Misra, 2020), computed as x n / (n + 2) with n = e (e + 2), e = exp(x). gx = gy (t + x
/// s (1 - t^2)), t = n / (n + 2), s = sigmoid(x). The error is up to 64 ulp if exp(x) is subnormal.
struct Mish : Unary<Mish> {
  static constexpr OpInfo info = detail::unary_info(OpInfo{.name = "mish", .numerics = {.ulp_f32 = 64}});
  static constexpr Saves saves = Saves::kInput;
  /// tanh(log(1 + exp(x))). For x > 20 it is 1 in float; in double the limit is 40.
  template <class C>
  BINADE_HD static C factor(C x) {
    const C e = math::exp(math::minimum(x, C(40)));
    const C n = e * (e + 2);
    return n / (n + 2);
  }
  template <class C>
  BINADE_HD static C value(C x, const Params&) {
    return x * factor(x);
  }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params&) {
    const C held = math::clamp(x, C(-800), C(800));
    const C e = math::exp(math::minimum(held, C(40)));
    const C n = e * (e + 2), d = n + 2;
    // 1 - t^2 = 4 (n + 1) / (n + 2)^2, and n + 1 = (e + 1)^2, so s (1 - t^2) = 4 e (e + 1) / (n + 2)^2
    return gy * (n / d + held * (4 * (e / d) * ((e + 1) / d)));
  }
};

struct ScalarParams {
  double scalar = 0;
};

/// Base of ops of a tensor and a scalar s, which is rounded to float. A derived struct defines of(x, s) and
/// derivative(x, gy, s) instead of value() and gradient().
template <class Op>
struct ScalarOp : Unary<Op> {
  using Params = ScalarParams;
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    return Op::of(x, C(p.scalar));
  }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params& p) {
    return Op::derivative(x, gy, C(p.scalar));
  }
};

namespace detail {
/// Returns `info` with the fields that all ops with a scalar share.
constexpr OpInfo scalar_info(OpInfo info) {
  info.precision = PrecisionClass::kWidest;
  info.numerics = kRoundedOnce;
  return unary_info(info);
}
}  // namespace detail

/// y = x + s.
struct AddScalar : ScalarOp<AddScalar> {
  static constexpr OpInfo info = detail::scalar_info(OpInfo{.name = "add_scalar", .carries_masks = true});
  static constexpr Saves saves = Saves::kNothing;
  static constexpr bool passes_gradient = true;
  BINADE_HD static auto of(auto x, auto s) { return x + s; }
  BINADE_HD static auto derivative(auto, auto gy, auto) { return gy; }
};

/// y = s x.
struct MulScalar : ScalarOp<MulScalar> {
  static constexpr OpInfo info = detail::scalar_info(OpInfo{.name = "mul_scalar", .carries_masks = true});
  static constexpr Saves saves = Saves::kNothing;
  BINADE_HD static auto of(auto x, auto s) { return s * x; }
  BINADE_HD static auto derivative(auto, auto gy, auto s) { return s * gy; }
};

/// y = x / s.
struct DivScalar : ScalarOp<DivScalar> {
  static constexpr OpInfo info = detail::scalar_info(OpInfo{.name = "div_scalar", .carries_masks = true});
  static constexpr Saves saves = Saves::kNothing;
  BINADE_HD static auto of(auto x, auto s) { return x / s; }
  BINADE_HD static auto derivative(auto, auto gy, auto s) { return gy / s; }
};

/// y = s - x.
struct ScalarSub : ScalarOp<ScalarSub> {
  static constexpr OpInfo info = detail::scalar_info(OpInfo{.name = "scalar_sub"});
  static constexpr Saves saves = Saves::kNothing;
  BINADE_HD static auto of(auto x, auto s) { return s - x; }
  BINADE_HD static auto derivative(auto, auto gy, auto) { return -gy; }
};

/// y = s / x. gx = -gy s / x^2.
struct ScalarDiv : ScalarOp<ScalarDiv> {
  static constexpr OpInfo info = detail::scalar_info(
      OpInfo{.name = "scalar_div", .singularities = {{.input = 0, .at = 0}}});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto of(auto x, auto s) { return s / x; }
  BINADE_HD static auto derivative(auto x, auto gy, auto s) { return -gy * (s / x) / x; }
};

}  // namespace binade::ops
