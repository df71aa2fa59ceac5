#pragma once

#include <variant>

#include "binade/core/host_device.h"
#include "binade/core/math.h"

/// How optimizers change one weight. A rule is one struct, compiled for every instruction-set level and for the GPU;
/// optim/ has a class with options and defaults for each. To add a rule, write its struct and list it in UpdateRule.
namespace binade {

/// The numbers of one parameter's update, the same for all its elements. A rule reads those that it names.
struct UpdateNumbers {
  float step_size = 0;
  float keep = 1;  ///< multiplies the weight: 1 - lr weight_decay (decoupled decay)
  float l2 = 0;    ///< weight decay added to the gradient
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float root_factor = 1;  ///< 1 / sqrt(1 - beta2^t)
  float eps = 0;
  float gradient_share = 0, moment_share = 1;  ///< shares of g and m in the direction of a Momentum step (Nesterov)
};

/// One weight and its moments. A rule with fewer moments leaves the rest at 0.
struct UpdateElement {
  float w = 0, m = 0, v = 0;
};

namespace rules {

// `g` is the gradient, unscaled and clipped. All arithmetic is in float. kMoments: m and v, m alone, or neither.

/// g += l2 w; w -= step_size g.
struct Sgd {
  static constexpr int kMoments = 0;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.w = x.w - n.step_size * g;
  }
};

/// g += l2 w; m = beta1 m + one_minus_beta1 g; w -= step_size (gradient_share g + moment_share m).
struct Momentum {
  static constexpr int kMoments = 1;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.m = n.beta1 * x.m + n.one_minus_beta1 * g;
    g = n.gradient_share * g + n.moment_share * x.m;
    x.w = x.w - n.step_size * g;
  }
};

/// g += l2 w; w *= keep; m += one_minus_beta1 (g - m); v = beta2 v + one_minus_beta2 g^2;
/// w -= step_size m / (sqrt(v) root_factor + eps).
struct Adam {
  static constexpr int kMoments = 2;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.m = x.m + n.one_minus_beta1 * (g - x.m);
    x.v = n.beta2 * x.v + n.one_minus_beta2 * (g * g);
    x.w = n.keep * x.w - n.step_size * (x.m / (math::sqrt(x.v) * n.root_factor + n.eps));
  }
};

/// w *= keep; w -= step_size sign(beta1 m + one_minus_beta1 g); m = beta2 m + one_minus_beta2 g.
struct Lion {
  static constexpr int kMoments = 1;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    const float direction = n.beta1 * x.m + n.one_minus_beta1 * g;
    const float sign = direction > 0.0f ? 1.0f : (direction < 0.0f ? -1.0f : direction);  // 0 and NaN stay
    x.m = n.beta2 * x.m + n.one_minus_beta2 * g;
    x.w = n.keep * x.w - n.step_size * sign;
  }
};

/// w = g. For optimizers that compute new weights by themselves: g is the new weight.
struct Assign {
  static constexpr int kMoments = 0;
  BINADE_HD static void update(const UpdateNumbers&, float g, UpdateElement& x) { x.w = g; }
};

}  // namespace rules

using UpdateRule = std::variant<rules::Sgd, rules::Momentum, rules::Adam, rules::Lion, rules::Assign>;

}  // namespace binade
