#include "binade/optim/rprop.h"

#include <algorithm>
#include <cmath>

#include "binade/core/error.h"

namespace binade::optim {

Rprop::Rprop(std::vector<NamedParameter> parameters, const RpropOptions& options)
    : Optimizer(std::move(parameters), {.kind = "rprop",
                                        .rule = rules::Rprop{},
                                        .lr = options.lr,
                                        .moment_dtype = options.moment_dtype,
                                        .groups = options.groups,
                                        .maximize = options.maximize}),
      options_(groups().options_of(options)) {
  const RpropOptions& o = options;
  check<ArgumentError>(0 < o.eta_minus && o.eta_minus < 1 && 1 < o.eta_plus && o.eta_plus < 1e6,
                       "rprop: wanted 0 < eta_minus < 1 < eta_plus, got {} and {}", o.eta_minus, o.eta_plus);
  check<ArgumentError>(0 < o.step_min && o.step_min <= o.step_max && o.step_max < 1e30,
                       "rprop: wanted 0 < step_min <= step_max, got {} and {}", o.step_min, o.step_max);
}

UpdateFacts Rprop::facts_of(std::size_t parameter_class) const {
  return {.stated = false, .moment_dtype = options_[parameter_class].moment_dtype};
}

UpdateNumbers Rprop::numbers(const UpdateTarget& target) const {
  const RpropOptions& o = options_[target.parameter_class];
  return {.beta1 = static_cast<float>(o.eta_minus),
          .beta2 = static_cast<float>(o.eta_plus),
          .initial = static_cast<float>(target.lr),
          .low = static_cast<float>(o.step_min),
          .high = static_cast<float>(o.step_max)};
}

Optimizer::Magnitudes Rprop::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const RpropOptions& o = options_[target.parameter_class];
  const double step = std::clamp(std::max(now.moment2, target.lr) * o.eta_plus, o.step_min, o.step_max);
  return {now.value + step, std::max(now.moment1, gradient), step};
}

Asgd::Asgd(std::vector<NamedParameter> parameters, const AsgdOptions& options)
    : Optimizer(std::move(parameters), {.kind = "asgd",
                                        .rule = rules::Asgd{},
                                        .lr = options.lr,
                                        .decays = options.decays,
                                        .groups = options.groups,
                                        .maximize = options.maximize}),
      options_(groups().options_of(options)) {
  for (const AsgdOptions& o : options_) {
    detail::check_option("asgd", "lambd", o.lambd, 0, 1e6);
    detail::check_option("asgd", "alpha", o.alpha, 0, 1e3);
    detail::check_option("asgd", "t0", o.t0, 0, 1e18);
    detail::check_option("asgd", "weight_decay", o.weight_decay, 0, 1e6);
  }
}

UpdateFacts Asgd::facts_of(std::size_t parameter_class) const {
  return {.decoupled_decay = options_[parameter_class].lambd};
}

UpdateNumbers Asgd::numbers(const UpdateTarget& target) const {
  const AsgdOptions& o = options_[target.parameter_class];
  const auto before = static_cast<double>(target.t - 1);
  const double eta = target.lr / std::pow(1 + o.lambd * target.lr * before, o.alpha);
  return {.step_size = static_cast<float>(eta),
          .keep = static_cast<float>(1 - o.lambd * eta),
          .l2 = target.decays ? static_cast<float>(o.weight_decay) : 0.0f,
          .moment_share = static_cast<float>(1 / std::max(1.0, before - o.t0))};
}

Optimizer::Magnitudes Asgd::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const AsgdOptions& o = options_[target.parameter_class];
  const double g = gradient + (target.decays ? o.weight_decay : 0) * now.value;
  const double value = std::max(1.0, o.lambd * target.lr - 1) * now.value + target.lr * g;
  return {value, std::max(now.moment1, value), 0};
}

}  // namespace binade::optim
