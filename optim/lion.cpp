#include "binade/optim/lion.h"

#include <algorithm>
#include <cmath>

namespace binade::optim {

Lion::Lion(std::vector<NamedParameter> parameters, const LionOptions& options)
    : Optimizer(std::move(parameters), settings("lion", rules::Lion{}, options)),
      options_(groups().options_of(options)) {
  for (const LionOptions& o : options_) {
    detail::check_option("lion", "beta1", o.beta1, 0, 1, true);
    detail::check_option("lion", "beta2", o.beta2, 0, 1, true);
    detail::check_option("lion", "weight_decay", o.weight_decay, 0, 1e6);
    detail::check_moment_settings("lion", o.moment_dtype, 0, o.beta2, o.weight_decay);
  }
}

UpdateFacts Lion::facts_of(std::size_t parameter_class) const {
  const LionOptions& o = options_[parameter_class];
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .decoupled_decay = o.weight_decay,
          .unit_steps = true,
          .moment_dtype = o.moment_dtype};
}

UpdateNumbers Lion::numbers(const UpdateTarget& target) const {
  const LionOptions& o = options_[target.parameter_class];
  return {.step_size = static_cast<float>(target.lr),
          .keep = target.decays ? static_cast<float>(1 - target.lr * o.weight_decay) : 1.0f,
          .beta1 = static_cast<float>(o.beta1),
          .one_minus_beta1 = static_cast<float>(1 - o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2)};
}

Optimizer::Magnitudes Lion::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const double keep = target.decays ? std::abs(1 - target.lr * options_[target.parameter_class].weight_decay) : 1;
  return {keep * now.value + target.lr, std::max(now.moment1, gradient), 0};
}

}  // namespace binade::optim
