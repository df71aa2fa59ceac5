#include "binade/optim/rmsprop.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace binade::optim {
namespace {

UpdateRule rule_of(const RmspropOptions& options) {
  const auto has_momentum = [](const ParameterGroup& group) { return group.momentum.value_or(0) > 0; };
  if (options.momentum > 0 || std::ranges::any_of(options.groups, has_momentum))
    return options.centered ? UpdateRule(rules::Rmsprop<true, true>{}) : rules::Rmsprop<false, true>{};
  return options.centered ? UpdateRule(rules::Rmsprop<true, false>{}) : rules::Rmsprop<false, false>{};
}

}  // namespace

Rmsprop::Rmsprop(std::vector<NamedParameter> parameters, const RmspropOptions& options)
    : Optimizer(std::move(parameters), settings("rmsprop", rule_of(options), options)),
      options_(groups().options_of(options)) {
  for (const RmspropOptions& o : options_) {
    detail::check_option("rmsprop", "alpha", o.alpha, 0, 1, true);
    detail::check_option("rmsprop", "eps", o.eps, 0, 1);
    detail::check_option("rmsprop", "weight_decay", o.weight_decay, 0, 1e6);
    detail::check_option("rmsprop", "momentum", o.momentum, 0, 1, true);
    detail::check_moment_settings("rmsprop", o.moment_dtype, o.eps, o.alpha, o.weight_decay);
  }
}

UpdateFacts Rmsprop::facts_of(std::size_t parameter_class) const {
  const RmspropOptions& o = options_[parameter_class];
  return {.beta1 = o.momentum,
          .beta2 = o.alpha,
          .eps = o.eps,
          .divides_by_root = true,
          .root_moment = 1,
          .unit_steps = true,
          .moment_dtype = o.moment_dtype};
}

UpdateNumbers Rmsprop::numbers(const UpdateTarget& target) const {
  const RmspropOptions& o = options_[target.parameter_class];
  return {.step_size = static_cast<float>(target.lr),
          .l2 = target.decays ? static_cast<float>(o.weight_decay) : 0.0f,
          .beta1 = static_cast<float>(o.momentum),
          .beta2 = static_cast<float>(o.alpha),
          .one_minus_beta2 = static_cast<float>(1 - o.alpha),
          .eps = static_cast<float>(o.eps)};
}

Optimizer::Magnitudes Rmsprop::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const RmspropOptions& o = options_[target.parameter_class];
  if (o.eps < 1e-20) return {std::numeric_limits<double>::infinity(), now.moment1, now.moment2};
  const double g = gradient + (target.decays ? o.weight_decay : 0) * now.value;
  // v is at least (1 - alpha) g^2, and at least 0 if that underflows. A variance can be 0 for any gradient.
  double d = o.centered ? g / o.eps : 1 + 1 / std::sqrt(1 - o.alpha);
  if (o.momentum > 0) d += o.momentum * now.moment2;
  return {now.value + target.lr * d, std::max(now.moment1, g * g), std::max({now.moment2, g, d})};
}

}  // namespace binade::optim
