#include "binade/optim/sgd.h"

#include <algorithm>

#include "binade/core/error.h"

namespace binade::optim {
namespace {

UpdateRule rule_of(const SgdOptions& options) {
  const auto has_momentum = [](const ParameterGroup& group) { return group.momentum.value_or(0) > 0; };
  if (options.momentum > 0 || std::ranges::any_of(options.groups, has_momentum)) return rules::Momentum{};
  return rules::Sgd{};
}

}  // namespace

Sgd::Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), settings("sgd", rule_of(options), options)),
      options_(groups().options_of(options)) {
  for (const SgdOptions& o : options_) {
    detail::check_option("sgd", "momentum", o.momentum, 0, 1, true);
    detail::check_option("sgd", "dampening", o.dampening, 0, 1);
    detail::check_option("sgd", "weight_decay", o.weight_decay, 0, 1e6);
    check<ArgumentError>(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
                         "sgd: nesterov wants momentum > 0 and dampening 0, got {} and {}", o.momentum, o.dampening);
    detail::check_moment_settings("sgd", o.moment_dtype, 0, 0, o.weight_decay);
  }
}

UpdateNumbers Sgd::numbers(const UpdateTarget& target) const {
  const SgdOptions& o = options_[target.parameter_class];
  const auto momentum = static_cast<float>(o.momentum);
  // The first update sets the moment to the gradient; a class without momentum does so in every update.
  const bool first = target.t == 1 || o.momentum == 0;
  return {.step_size = static_cast<float>(target.lr),
          .l2 = target.decays ? static_cast<float>(o.weight_decay) : 0.0f,
          .beta1 = first ? 0.0f : momentum,
          .one_minus_beta1 = first ? 1.0f : static_cast<float>(1 - o.dampening),
          .gradient_share = o.nesterov ? 1.0f : 0.0f,
          .moment_share = o.nesterov ? momentum : 1.0f};
}

Optimizer::Magnitudes Sgd::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const SgdOptions& o = options_[target.parameter_class];
  const double g = gradient + (target.decays ? o.weight_decay : 0) * now.value;
  const double m = o.momentum * now.moment1 + g;
  return {now.value + target.lr * std::max(m, o.momentum > 0 ? g + o.momentum * m : g), m, 0};
}

}  // namespace binade::optim
