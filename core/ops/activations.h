#pragma once

#include <cmath>

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"

/// Activations from RareUnaryOps (lists.h): one input x, one result y, computed in double for every stored dtype and
/// rounded once. NaN gives NaN. At a kink the gradient is that of PyTorch. The activations that large models use in
/// every layer are in unary.h, compiled for every instruction set.
namespace binade::ops {

/// y = s x for x > 0, else s a (exp(x) - 1), with s = 1.0507 and a = 1.6733 (Klambauer et al., 2017).
struct Selu : Unary<Selu> {
  static constexpr double kScale = 1.0507009873554804934193349852946, kAlpha = 1.6732632423543772848170429916717;
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "selu"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return kScale * (x > 0 ? x : kAlpha * std::expm1(x)); }
  BINADE_HD static double gradient(double x, double gy, const Params&) {
    return gy * kScale * (x > 0 ? 1 : kAlpha * std::exp(x));
  }
};

/// y = x for x > 0, else alpha (exp(x / alpha) - 1) (Barron, 2017). gx = gy, or gy exp(x / alpha).
/// Throws ArgumentError if alpha is 0 or not finite.
struct Celu : Unary<Celu> {
  struct Params {
    double alpha = 1;
  };
  static void check_params(const Params& p) {
    check<ArgumentError>(p.alpha != 0 && p.alpha - p.alpha == 0, "{}: wanted a finite alpha other than 0, got {}",
                         where(info.name), p.alpha);
  }
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "celu"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params& p) {
    return x > 0 || x != x ? x : p.alpha * std::expm1(x / p.alpha);
  }
  BINADE_HD static double gradient(double x, double gy, const Params& p) {
    return x > 0 ? gy : gy * std::exp(x / p.alpha);
  }
};

/// y = log(1 + exp(beta x)) / beta, but x if beta x > threshold. gx = gy sigmoid(beta x), or gy. Throws ArgumentError
/// unless beta is finite and not 0.
struct SoftplusBeta : Unary<SoftplusBeta> {
  struct Params {
    double beta = 1, threshold = 20;
  };
  static void check_params(const Params& p) {
    check<ArgumentError>(p.beta != 0 && p.beta - p.beta == 0, "{}: wanted a finite beta other than 0, got {}",
                         where(info.name), p.beta);
  }
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "softplus_beta", .precision = PrecisionClass::kFull});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params& p) {
    return p.beta * x > p.threshold ? x : math::softplus(p.beta * x) / p.beta;
  }
  BINADE_HD static double gradient(double x, double gy, const Params& p) {
    return p.beta * x > p.threshold ? gy : gy * math::sigmoid(p.beta * x);
  }
};

/// y = min(max(x + 3, 0), 6) / 6. gx = gy / 6 for -3 < x < 3, else 0.
struct Hardsigmoid : Unary<Hardsigmoid> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "hardsigmoid"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return math::clamp(x + 3, 0.0, 6.0) / 6; }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return x > -3 && x < 3 ? gy / 6 : 0; }
};

/// y = min(max(x, low), high). gx = gy for low < x < high, else 0; it is 0 at the bounds, where clamp passes gy. Throws
/// ArgumentError unless low <= high.
struct Hardtanh : Unary<Hardtanh> {
  struct Params {
    double low = -1, high = 1;
  };
  static void check_params(const Params& p) {
    check<ArgumentError>(p.low <= p.high, "{}: wanted low <= high, got low {} and high {}", where(info.name), p.low,
                         p.high);
  }
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "hardtanh"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params& p) { return math::clamp(x, p.low, p.high); }
  BINADE_HD static double gradient(double x, double gy, const Params& p) { return x > p.low && x < p.high ? gy : 0; }
};

/// y = log(sigmoid(x)) = -log(1 + exp(-x)). gx = gy sigmoid(-x).
struct Logsigmoid : Unary<Logsigmoid> {
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "logsigmoid", .precision = PrecisionClass::kFull});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) { return -math::softplus(-x); }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * math::sigmoid(-x); }
};

/// y = x, or 0 for |x| <= lambda. gx = gy, or 0.
struct Hardshrink : Unary<Hardshrink> {
  struct Params {
    double lambda = 0.5;
  };
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "hardshrink"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params& p) { return x >= -p.lambda && x <= p.lambda ? 0 : x; }
  BINADE_HD static double gradient(double x, double gy, const Params& p) {
    return x >= -p.lambda && x <= p.lambda ? 0 : gy;
  }
};

/// y = x - lambda for x > lambda, x + lambda for x < -lambda, else 0. gx = gy, or 0 between. Throws ArgumentError if
/// lambda is negative or NaN.
struct Softshrink : Unary<Softshrink> {
  struct Params {
    double lambda = 0.5;
  };
  static void check_params(const Params& p) {
    check<ArgumentError>(p.lambda >= 0, "{}: wanted lambda >= 0, got {}", where(info.name), p.lambda);
  }
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "softshrink"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params& p) {
    return x > p.lambda ? x - p.lambda : x < -p.lambda ? x + p.lambda : 0 * x;
  }
  BINADE_HD static double gradient(double x, double gy, const Params& p) {
    return x >= -p.lambda && x <= p.lambda ? 0 : gy;
  }
};

/// y = x - tanh(x). gx = gy tanh(x)^2. For |x| < 0.02, y is computed by its Taylor series, which does not cancel.
struct Tanhshrink : Unary<Tanhshrink> {
  BINADE_HD static bool near(double x) { return x > -0.02 && x < 0.02; }
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "tanhshrink"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params&) {
    return near(x)
               ? x * x * x * math::horner(x * x, -1382.0 / 155925, 62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3) * -1
               : x - std::tanh(x);
  }
  BINADE_HD static double gradient(double x, double gy, const Params&) { return gy * std::tanh(x) * std::tanh(x); }
};

/// y = x for x > threshold, else value; NaN for NaN. gx = gy, or 0.
struct Threshold : Unary<Threshold> {
  struct Params {
    double threshold = 0, value = 0;
  };
  static constexpr OpInfo info = detail::rare_info(OpInfo{.name = "threshold"});
  static constexpr Saves saves = Saves::kInput;
  BINADE_HD static double value(double x, const Params& p) { return x <= p.threshold ? p.value : x; }
  BINADE_HD static double gradient(double x, double gy, const Params& p) { return x <= p.threshold ? 0 : gy; }
};

}  // namespace binade::ops
