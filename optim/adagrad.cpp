#include "binade/optim/adagrad.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace binade::optim {

Adagrad::Adagrad(std::vector<NamedParameter> parameters, const AdagradOptions& options)
    : Optimizer(std::move(parameters), settings("adagrad", rules::Adagrad{}, options)),
      options_(groups().options_of(options)) {
  for (const AdagradOptions& o : options_) {
    detail::check_option("adagrad", "lr_decay", o.lr_decay, 0, 1e6);
    detail::check_option("adagrad", "weight_decay", o.weight_decay, 0, 1e6);
    detail::check_option("adagrad", "initial_accumulator_value", o.initial_accumulator_value, 0, 1e6);
    detail::check_option("adagrad", "eps", o.eps, 0, 1);
    detail::check_moment_settings("adagrad", o.moment_dtype, o.eps, 0, o.weight_decay);
  }
}

UpdateFacts Adagrad::facts_of(std::size_t parameter_class) const {
  const AdagradOptions& o = options_[parameter_class];
  // Updates shrink with the number of updates, so that nothing is stated about their sizes.
  return {.stated = false, .eps = o.eps, .divides_by_root = true, .root_moment = 1, .moment_dtype = o.moment_dtype};
}

UpdateNumbers Adagrad::numbers(const UpdateTarget& target) const {
  const AdagradOptions& o = options_[target.parameter_class];
  return {.step_size = static_cast<float>(target.lr / (1 + static_cast<double>(target.t - 1) * o.lr_decay)),
          .l2 = target.decays ? static_cast<float>(o.weight_decay) : 0.0f,
          .eps = static_cast<float>(o.eps),
          .initial = static_cast<float>(o.initial_accumulator_value)};
}

Optimizer::Magnitudes Adagrad::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const AdagradOptions& o = options_[target.parameter_class];
  if (o.eps < 1e-20) return {std::numeric_limits<double>::infinity(), now.moment1, 0};
  const double g = gradient + (target.decays ? o.weight_decay : 0) * now.value;
  // v is at least g^2. If g^2 underflows, eps keeps the quotient below 1.
  return {now.value + 2 * target.lr, std::max(now.moment1, o.initial_accumulator_value) + g * g, 0};
}

Adadelta::Adadelta(std::vector<NamedParameter> parameters, const AdadeltaOptions& options)
    : Optimizer(std::move(parameters), settings("adadelta", rules::Adadelta{}, options)),
      options_(groups().options_of(options)) {
  for (const AdadeltaOptions& o : options_) {
    detail::check_option("adadelta", "rho", o.rho, 0, 1, true);
    detail::check_option("adadelta", "eps", o.eps, 0, 1);
    detail::check_option("adadelta", "weight_decay", o.weight_decay, 0, 1e6);
    detail::check_moment_settings("adadelta", o.moment_dtype, o.eps, o.rho, o.weight_decay);
  }
}

UpdateFacts Adadelta::facts_of(std::size_t parameter_class) const {
  const AdadeltaOptions& o = options_[parameter_class];
  // eps is under the root. The size of an update also depends on earlier updates, not only on the learning rate.
  return {.stated = false,
          .beta2 = o.rho,
          .eps = std::sqrt(o.eps),
          .divides_by_root = true,
          .root_moment = 1,
          .moment_dtype = o.moment_dtype};
}

UpdateNumbers Adadelta::numbers(const UpdateTarget& target) const {
  const AdadeltaOptions& o = options_[target.parameter_class];
  return {.step_size = static_cast<float>(target.lr),
          .l2 = target.decays ? static_cast<float>(o.weight_decay) : 0.0f,
          .beta2 = static_cast<float>(o.rho),
          .one_minus_beta2 = static_cast<float>(1 - o.rho),
          .eps = static_cast<float>(o.eps)};
}

Optimizer::Magnitudes Adadelta::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const AdadeltaOptions& o = options_[target.parameter_class];
  if (o.eps < 1e-30) return {std::numeric_limits<double>::infinity(), now.moment1, now.moment2};
  const double g = gradient + (target.decays ? o.weight_decay : 0) * now.value;
  // v is at least (1 - rho) g^2, so that |d| <= sqrt((u + eps) / (1 - rho)).
  const double d = std::sqrt((now.moment2 + o.eps) / (1 - o.rho));
  return {now.value + target.lr * d, std::max(now.moment1, g * g), now.moment2 + d * d};
}

}  // namespace binade::optim
