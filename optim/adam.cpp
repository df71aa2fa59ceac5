#include "binade/optim/adam.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace binade::optim {

AdamBase::AdamBase(std::vector<NamedParameter> parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(std::move(parameters),
                settings(decoupled ? "adamw" : "adam", options.amsgrad ? UpdateRule(rules::AmsGrad{}) : rules::Adam{},
                         options)),
      options_(groups().options_of(options)),
      decoupled_(decoupled) {
  for (const AdamOptions& o : options_) {
    detail::check_option(kind(), "beta1", o.beta1, 0, 1, true);
    detail::check_option(kind(), "beta2", o.beta2, 0, 1, true);
    detail::check_option(kind(), "eps", o.eps, 0, 1);
    detail::check_option(kind(), "weight_decay", o.weight_decay, 0, 1e6);
    detail::check_moment_settings(kind(), o.moment_dtype, o.eps, o.beta2, o.weight_decay);
  }
}

AdamW::AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& o)
    : AdamBase(std::move(parameters),
               {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.moment_dtype, o.decays, o.groups, o.amsgrad,
                o.maximize},
               true) {}

UpdateFacts AdamBase::facts_of(std::size_t parameter_class) const {
  const AdamOptions& o = options_[parameter_class];
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .decoupled_decay = decoupled_ ? o.weight_decay : 0,
          .divides_by_root = true,
          .unit_steps = true,
          .moment_dtype = o.moment_dtype};
}

UpdateNumbers AdamBase::numbers(const UpdateTarget& target) const {
  const AdamOptions& o = options_[target.parameter_class];
  return detail::adam_numbers({o.beta1, o.beta2, o.eps, o.weight_decay, decoupled_}, target);
}

Optimizer::Magnitudes AdamBase::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const AdamOptions& o = options_[target.parameter_class];
  return detail::adam_bound({o.beta1, o.beta2, o.eps, o.weight_decay, decoupled_}, now, gradient, target);
}

namespace detail {

UpdateNumbers adam_numbers(const AdamSettings& o, const UpdateTarget& target) {
  const auto steps = static_cast<double>(target.t);
  const double decay = target.decays ? o.weight_decay : 0;
  return {.step_size = static_cast<float>(target.lr / (1 - std::pow(o.beta1, steps))),
          .keep = o.decoupled ? static_cast<float>(1 - target.lr * decay) : 1.0f,
          .l2 = o.decoupled ? 0.0f : static_cast<float>(decay),
          .beta1 = static_cast<float>(o.beta1),
          .one_minus_beta1 = static_cast<float>(1 - o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2),
          .root_factor = static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, steps))),
          .eps = static_cast<float>(o.eps)};
}

Magnitudes adam_bound(const AdamSettings& o, const Magnitudes& now, double gradient, const UpdateTarget& target,
                      double factor) {
  const double b1 = o.beta1, b2 = o.beta2;
  // m and v are averages of the same gradients, so by Cauchy-Schwarz |m / (1 - b1^t)| / sqrt(v / (1 - b2^t)) is at most
  // 1 / sqrt((1 - b2)(1 - b1^2 / b2)) at every t. If g^2 underflows, so that v = 0, eps keeps the quotient finite.
  if (!(b1 * b1 < b2) || o.eps < 1e-20) return {std::numeric_limits<double>::infinity(), now.moment1, now.moment2};
  const double ratio = 1 + 1 / std::sqrt((1 - b2) * (1 - b1 * b1 / b2));
  const double decay = target.decays ? o.weight_decay : 0;
  const double g = gradient + (o.decoupled ? 0 : decay * now.value);
  const double keep = o.decoupled ? std::abs(1 - target.lr * decay) : 1;
  // The update kernel computes v from g^2, which must not overflow either, so moment2 is bounded by g^2 too.
  return {keep * now.value + target.lr * factor * ratio, std::max(now.moment1, 2 * g), std::max(now.moment2, g * g)};
}

}  // namespace detail

}  // namespace binade::optim
