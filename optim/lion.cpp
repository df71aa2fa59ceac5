#include "binade/optim/lion.h"

#include <algorithm>
#include <cmath>

namespace binade::optim {

Lion::Lion(std::vector<NamedParameter> parameters, const LionOptions& options)
    : Optimizer(std::move(parameters), {.kind = "lion",
                                        .rule = rules::Lion{},
                                        .lr = options.lr,
                                        .moment_dtype = options.moment_dtype,
                                        .decays = options.decays}),
      options_(options) {
  detail::check_option("lion", "beta1", options.beta1, 0, 1, true);
  detail::check_option("lion", "beta2", options.beta2, 0, 1, true);
  detail::check_option("lion", "weight_decay", options.weight_decay, 0, 1e6);
  detail::check_moment_settings("lion", options.moment_dtype, 0, options.beta2, options.weight_decay);
}

UpdateFacts Lion::facts() const {
  return {.beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .decoupled_decay = options_.weight_decay,
          .unit_steps = true,
          .moment_dtype = options_.moment_dtype};
}

UpdateNumbers Lion::numbers(bool decays, std::int64_t, double lr) const {
  return {.step_size = static_cast<float>(lr),
          .keep = decays ? static_cast<float>(1 - lr * options_.weight_decay) : 1.0f,
          .beta1 = static_cast<float>(options_.beta1),
          .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
          .beta2 = static_cast<float>(options_.beta2),
          .one_minus_beta2 = static_cast<float>(1 - options_.beta2)};
}

Optimizer::Magnitudes Lion::bound(const Magnitudes& now, double gradient, bool decays, double lr) const {
  const double keep = decays ? std::abs(1 - lr * options_.weight_decay) : 1;
  return {keep * now.value + lr, std::max(now.moment1, gradient), 0};
}

}  // namespace binade::optim
