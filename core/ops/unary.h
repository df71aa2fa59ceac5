#pragma once

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"

/// The elementwise ops of one input. Each computes in float (double for f64) whatever the stored type and rounds once;
/// each passes NaN on. To add one: a struct here, its name in core/ops/lists.h, a line in
/// autograd/functions/elementwise.h.
namespace binade::ops {

/// y = max(x, 0); relu(NaN) = NaN. gx = gy where y > 0, else 0.
struct Relu : Unary<Relu> {
  static constexpr OpInfo info{
      .name = "relu", .inputs = "x", .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5}, .observed = Observed::kByKernels};
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return x <= 0 ? 0 : x; }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return y <= 0 ? 0 : gy; }
};

/// y = x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel, 2016). gx = gy (Phi(x) + x phi(x)).
/// The negative tail keeps its relative accuracy down to the smallest normal number; gelu(-inf) = NaN, as -inf * 0 is.
struct Gelu : Unary<Gelu> {
  static constexpr OpInfo info{
      .name = "gelu", .inputs = "x", .numerics = {.ulp_f32 = 8}, .observed = Observed::kByKernels};
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::gelu(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * math::gelu_derivative(x); }
};

/// y = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): the approximation GPT-2 was trained with. In float the
/// exponent's own rounding costs up to 256 ulp where x < -9; near 0 it is 4.
struct GeluTanh : Unary<GeluTanh> {
  static constexpr OpInfo info{
      .name = "gelu_tanh", .inputs = "x", .numerics = {.ulp_f32 = 256}, .observed = Observed::kByKernels};
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::gelu_tanh(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * math::gelu_tanh_derivative(x); }
};

/// y = x sigmoid(x). gx = gy s (1 + x (1 - s)), s = sigmoid(x). Where exp(x) is subnormal (x < -87) up to 64 ulp.
struct Silu : Unary<Silu> {
  static constexpr OpInfo info{
      .name = "silu", .inputs = "x", .numerics = {.ulp_f32 = 64}, .observed = Observed::kByKernels};
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::silu(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * math::silu_derivative(x); }
};

/// y = 1 / (1 + exp(-x)). gx = gy y (1 - y).
struct Sigmoid : Unary<Sigmoid> {
  static constexpr OpInfo info{.name = "sigmoid",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 3},
                               .observed = Observed::kByKernels,
                               .saturates = true};
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return math::sigmoid(x); }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return gy * y * (1 - y); }
};

/// y = tanh(x). gx = gy (1 - y^2).
struct Tanh : Unary<Tanh> {
  static constexpr OpInfo info{
      .name = "tanh", .inputs = "x", .numerics = {.ulp_f32 = 2}, .observed = Observed::kByKernels, .saturates = true};
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return math::tanh(x); }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return gy * (1 - y) * (1 + y); }
};

/// y = erf(x). gx = gy 2 / sqrt(pi) exp(-x^2).
struct Erf : Unary<Erf> {
  static constexpr OpInfo info{
      .name = "erf", .inputs = "x", .numerics = {.ulp_f32 = 4}, .observed = Observed::kByKernels};
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::erf(x); }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params&) {
    return gy * (C(1.12837916709551257390) * math::exp(-x * x));
  }
};

/// y = exp(x). gx = gy y. Overflows f32 above 88.72.
struct Exp : Unary<Exp> {
  static constexpr OpInfo info{.name = "exp",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.safe_high = 88.72, .ulp_f32 = 1},
                               .observed = Observed::kByKernels,
                               .saturates = true};
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return math::exp(x); }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return gy * y; }
};

/// y = log(x): -inf at 0, NaN below. gx = gy / x.
struct Log : Unary<Log> {
  static constexpr OpInfo info{.name = "log",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.safe_low = 0x1p-149, .ulp_f32 = 1},
                               .observed = Observed::kByKernels,
                               .singularities = {{.input = 0, .at = 0}}};
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::log(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy / x; }
};

/// y = log(1 + exp(x)). gx = gy sigmoid(x).
struct Softplus : Unary<Softplus> {
  static constexpr OpInfo info{.name = "softplus",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.ulp_f32 = 3},
                               .observed = Observed::kByKernels,
                               .saturates = true};
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::softplus(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * math::sigmoid(x); }
};

/// y = sqrt(x), correctly rounded; NaN below 0. gx = gy / (2 y), infinite at 0.
struct Sqrt : Unary<Sqrt> {
  static constexpr OpInfo info{.name = "sqrt",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.safe_low = 0, .ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .singularities = {{.input = 0, .at = 0, .derivative_only = true}}};
  static constexpr Saves saves = Saves::kOutput;
  BINADE_HD static auto value(auto x, const Params&) { return math::sqrt(x); }
  BINADE_HD static auto gradient(auto y, auto gy, const Params&) { return gy / (2 * y); }
};

/// y = x^exponent. gx = gy exponent x^(exponent - 1), 0 for exponent 0. A negative x wants a whole exponent, else NaN.
/// Throws ArgumentError when the exponent is not finite.
struct Pow : Unary<Pow> {
  struct Params {
    double exponent = 2;
  };
  static constexpr OpInfo info{.name = "pow",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.ulp_f32 = 1},
                               .observed = Observed::kByKernels,
                               .singularities = {{.input = 0, .at = 0}}};
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
  static constexpr OpInfo info{.name = "square",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.safe_low = -0x1p63, .safe_high = 0x1p63, .ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels};
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return x * x; }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) { return gy * (2 * x); }
};

/// y = min(max(x, low), high), bounds rounded to float; clamp(NaN) = NaN. gx = gy where low <= x <= high, else 0.
/// Throws ArgumentError unless low <= high.
struct Clamp : Unary<Clamp> {
  struct Params {
    double low = 0;
    double high = 1;
  };
  static constexpr OpInfo info{
      .name = "clamp", .inputs = "x", .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5}, .observed = Observed::kByKernels};
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
  static constexpr OpInfo info{.name = "neg",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .carries_masks = true};
  static constexpr Saves saves = Saves::kNothing;
  BINADE_HD static auto value(auto x, const Params&) { return -x; }
  BINADE_HD static auto gradient(auto, auto gy, const Params&) { return -gy; }
};

/// y = |x|. gx = gy sign(x), 0 at 0.
struct Abs : Unary<Abs> {
  static constexpr OpInfo info{
      .name = "abs", .inputs = "x", .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5}, .observed = Observed::kByKernels};
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static auto value(auto x, const Params&) { return math::abs(x); }
  BINADE_HD static auto gradient(auto x, auto gy, const Params&) {
    const auto signed_gy = x < 0 ? -gy : gy;
    return x == 0 ? 0 : signed_gy;
  }
};

/// A number beside the tensor, rounded to float.
struct ScalarParams {
  double scalar = 0;
};

/// y = x + scalar.
struct AddScalar : Unary<AddScalar> {
  using Params = ScalarParams;
  static constexpr OpInfo info{.name = "add_scalar",
                               .inputs = "x",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .carries_masks = true};
  static constexpr Saves saves = Saves::kNothing;
  static constexpr bool passes_gradient = true;
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    return x + C(p.scalar);
  }
  BINADE_HD static auto gradient(auto, auto gy, const Params&) { return gy; }
};

/// y = scalar x.
struct MulScalar : Unary<MulScalar> {
  using Params = ScalarParams;
  static constexpr OpInfo info{.name = "mul_scalar",
                               .inputs = "x",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .carries_masks = true};
  static constexpr Saves saves = Saves::kNothing;
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    return C(p.scalar) * x;
  }
  template <class C>
  BINADE_HD static C gradient(C, C gy, const Params& p) {
    return C(p.scalar) * gy;
  }
};

/// y = x / scalar.
struct DivScalar : Unary<DivScalar> {
  using Params = ScalarParams;
  static constexpr OpInfo info{.name = "div_scalar",
                               .inputs = "x",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .carries_masks = true};
  static constexpr Saves saves = Saves::kNothing;
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    return x / C(p.scalar);
  }
  template <class C>
  BINADE_HD static C gradient(C, C gy, const Params& p) {
    return gy / C(p.scalar);
  }
};

/// y = scalar - x.
struct ScalarSub : Unary<ScalarSub> {
  using Params = ScalarParams;
  static constexpr OpInfo info{.name = "scalar_sub",
                               .inputs = "x",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels};
  static constexpr Saves saves = Saves::kNothing;
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    return C(p.scalar) - x;
  }
  BINADE_HD static auto gradient(auto, auto gy, const Params&) { return -gy; }
};

/// y = scalar / x. gx = -gy scalar / x^2.
struct ScalarDiv : Unary<ScalarDiv> {
  using Params = ScalarParams;
  static constexpr OpInfo info{.name = "scalar_div",
                               .inputs = "x",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .singularities = {{.input = 0, .at = 0}}};
  static constexpr Saves saves = Saves::kInput;
  template <class C>
  BINADE_HD static C value(C x, const Params& p) {
    return C(p.scalar) / x;
  }
  template <class C>
  BINADE_HD static C gradient(C x, C gy, const Params& p) {
    return -gy * (C(p.scalar) / x) / x;
  }
};

}  // namespace binade::ops
