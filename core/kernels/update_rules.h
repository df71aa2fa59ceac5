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
  float gradient_share = 0, moment_share = 1;  ///< shares of g and m in a step, as each rule says
  float direction = 1;                         ///< factor of the gradient: 1 to minimize, -1 to maximize
  bool first = false;                          ///< true in the first update of the parameter
  float initial = 0;                           ///< value of a moment before the first update
  float low = 0, high = 0;                     ///< limits of a step size
};

/// One weight and its moments. A rule with fewer moments leaves the rest at 0.
struct UpdateElement {
  float w = 0, m = 0, v = 0, s = 0;
};

namespace rules {

// `g` is the gradient, unscaled, clipped and multiplied by `direction`. All arithmetic is in float. kMoments: the
// number of moments that the rule keeps for each weight: the first ones of m, v and s.

/// Returns 1, -1 or, for 0 and NaN, x.
BINADE_HD float sign_of(float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x); }

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

/// Adam with s = max(s, v) in the place of v under the root.
struct AmsGrad {
  static constexpr int kMoments = 3;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.m = x.m + n.one_minus_beta1 * (g - x.m);
    x.v = n.beta2 * x.v + n.one_minus_beta2 * (g * g);
    x.s = math::maximum(x.s, x.v);
    x.w = n.keep * x.w - n.step_size * (x.m / (math::sqrt(x.s) * n.root_factor + n.eps));
  }
};

/// Adam's moments; w *= keep; w -= (gradient_share g + moment_share m) / (sqrt(v) root_factor + eps).
struct NAdam {
  static constexpr int kMoments = 2;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.m = x.m + n.one_minus_beta1 * (g - x.m);
    x.v = n.beta2 * x.v + n.one_minus_beta2 * (g * g);
    const float step = n.gradient_share * g + n.moment_share * x.m;
    x.w = n.keep * x.w - step / (math::sqrt(x.v) * n.root_factor + n.eps);
  }
};

/// g += l2 w; m += one_minus_beta1 (g - m); v = max(beta2 v, |g| + eps); w -= step_size m / v.
struct Adamax {
  static constexpr int kMoments = 2;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.m = x.m + n.one_minus_beta1 * (g - x.m);
    x.v = math::maximum(n.beta2 * x.v, math::abs(g) + n.eps);
    x.w = x.w - n.step_size * (x.m / x.v);
  }
};

/// y is the weight w, z the state m, which begins as w. v = beta2 v + one_minus_beta2 g^2;
/// d = g / (sqrt(v) root_factor + eps) + l2 y;  y += moment_share (z - y) - gradient_share d;  z -= step_size d.
struct ScheduleFree {
  static constexpr int kMoments = 2;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    const float z = n.first ? x.w : x.m;
    x.v = n.beta2 * x.v + n.one_minus_beta2 * (g * g);
    const float d = g / (math::sqrt(x.v) * n.root_factor + n.eps) + n.l2 * x.w;
    x.w = x.w + n.moment_share * (z - x.w) - n.gradient_share * d;
    x.m = z - n.step_size * d;
  }
};

/// g += l2 w; m = beta2 m + one_minus_beta2 g^2; d = g / (sqrt(m) + eps); w -= step_size d.
/// Centered: v += one_minus_beta2 (g - v), and the root is that of max(m - v^2, 0) instead of m.
/// With momentum: u = beta1 u + d, w -= step_size u, where u is the last moment (v, or s if centered).
template <bool kCentered, bool kMomentum>
struct Rmsprop {
  static constexpr int kMoments = 1 + (kCentered ? 1 : 0) + (kMomentum ? 1 : 0);
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.m = n.beta2 * x.m + n.one_minus_beta2 * (g * g);
    float variance = x.m;
    if constexpr (kCentered) {
      x.v = x.v + n.one_minus_beta2 * (g - x.v);
      variance = math::maximum(x.m - x.v * x.v, 0.0f);
    }
    float d = g / (math::sqrt(variance) + n.eps);
    if constexpr (kMomentum) {
      float& velocity = kCentered ? x.s : x.v;
      velocity = n.beta1 * velocity + d;
      d = velocity;
    }
    x.w = x.w - n.step_size * d;
  }
};

/// g += l2 w; m += g^2, from `initial` on; w -= step_size g / (sqrt(m) + eps).
struct Adagrad {
  static constexpr int kMoments = 1;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.m = (n.first ? n.initial : x.m) + g * g;
    x.w = x.w - n.step_size * (g / (math::sqrt(x.m) + n.eps));
  }
};

/// g += l2 w; m = beta2 m + one_minus_beta2 g^2; d = g sqrt(v + eps) / sqrt(m + eps); v = beta2 v + one_minus_beta2
/// d^2; w -= step_size d.
struct Adadelta {
  static constexpr int kMoments = 2;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.m = n.beta2 * x.m + n.one_minus_beta2 * (g * g);
    const float d = math::sqrt(x.v + n.eps) / math::sqrt(x.m + n.eps) * g;
    x.v = n.beta2 * x.v + n.one_minus_beta2 * (d * d);
    x.w = x.w - n.step_size * d;
  }
};

/// m is the previous gradient, v the step size of the weight, which begins as `initial`. v is multiplied by beta2 if g
/// and m have the same sign, by beta1 if they have opposite signs, and stays in [low, high]. w -= v sign(g). A gradient
/// of opposite sign counts as 0, also as m in the next update.
struct Rprop {
  static constexpr int kMoments = 2;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    const float agreement = sign_of(g) * sign_of(x.m);
    const float factor = agreement > 0.0f ? n.beta2 : (agreement < 0.0f ? n.beta1 : 1.0f);
    x.v = math::clamp((n.first ? n.initial : x.v) * factor, n.low, n.high);
    x.m = agreement < 0.0f ? 0.0f : g;
    x.w = x.w - x.v * sign_of(x.m);
  }
};

/// g += l2 w; w = keep w - step_size g; m += moment_share (w - m), the average of the weights.
struct Asgd {
  static constexpr int kMoments = 1;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    g += n.l2 * x.w;
    x.w = n.keep * x.w - n.step_size * g;
    const float average = x.m + n.moment_share * (x.w - x.m);
    x.m = n.moment_share == 1.0f ? x.w : average;
  }
};

/// w *= keep; w -= step_size sign(beta1 m + one_minus_beta1 g); m = beta2 m + one_minus_beta2 g.
struct Lion {
  static constexpr int kMoments = 1;
  BINADE_HD static void update(const UpdateNumbers& n, float g, UpdateElement& x) {
    const float direction = n.beta1 * x.m + n.one_minus_beta1 * g;
    x.m = n.beta2 * x.m + n.one_minus_beta2 * g;
    x.w = n.keep * x.w - n.step_size * sign_of(direction);
  }
};

/// w = g. For optimizers that compute new weights by themselves: g is the new weight.
struct Assign {
  static constexpr int kMoments = 0;
  BINADE_HD static void update(const UpdateNumbers&, float g, UpdateElement& x) { x.w = g; }
};

}  // namespace rules

using UpdateRule = std::variant<rules::Sgd, rules::Momentum, rules::Adam, rules::Lion, rules::Assign, rules::AmsGrad,
                                rules::NAdam, rules::Adamax, rules::ScheduleFree, rules::Rmsprop<false, false>,
                                rules::Rmsprop<false, true>, rules::Rmsprop<true, false>, rules::Rmsprop<true, true>,
                                rules::Adagrad, rules::Adadelta, rules::Rprop, rules::Asgd>;

}  // namespace binade
