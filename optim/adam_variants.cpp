#include "binade/optim/adam_variants.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/optim/adam.h"

namespace binade::optim {
namespace {

template <class Options>
void check_options(const std::string& kind, const std::vector<Options>& options) {
  for (const Options& o : options) {
    detail::check_option(kind, "beta1", o.beta1, 0, 1, true);
    detail::check_option(kind, "beta2", o.beta2, 0, 1, true);
    detail::check_option(kind, "eps", o.eps, 0, 1);
    detail::check_option(kind, "weight_decay", o.weight_decay, 0, 1e6);
    detail::check_moment_settings(kind, o.moment_dtype, o.eps, o.beta2, o.weight_decay);
  }
}

template <class Options>
UpdateFacts adam_facts(const Options& o) {
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .decoupled_decay = o.decoupled_weight_decay ? o.weight_decay : 0,
          .divides_by_root = true,
          .unit_steps = true,
          .moment_dtype = o.moment_dtype};
}

template <class Options>
detail::AdamSettings adam_settings(const Options& o) {
  return {o.beta1, o.beta2, o.eps, o.weight_decay, o.decoupled_weight_decay};
}

}  // namespace

// ---- Adamax -------------------------------------------------------------------------------------

Adamax::Adamax(std::vector<NamedParameter> parameters, const AdamaxOptions& options)
    : Optimizer(std::move(parameters), settings("adamax", rules::Adamax{}, options)),
      options_(groups().options_of(options)) {
  check_options(kind(), options_);
}

UpdateFacts Adamax::facts_of(std::size_t parameter_class) const {
  const AdamaxOptions& o = options_[parameter_class];
  return {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .unit_steps = true, .moment_dtype = o.moment_dtype};
}

UpdateNumbers Adamax::numbers(const UpdateTarget& target) const {
  const AdamaxOptions& o = options_[target.parameter_class];
  return detail::adam_numbers({o.beta1, o.beta2, o.eps, o.weight_decay}, target);
}

Optimizer::Magnitudes Adamax::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const AdamaxOptions& o = options_[target.parameter_class];
  if (!(o.beta1 < o.beta2) || o.eps < 1e-20) return {std::numeric_limits<double>::infinity(), now.moment1, now.moment2};
  // u is at least beta2^k |g| for the gradient of k updates ago, whose share in m is (1 - beta1) beta1^k.
  const double ratio = (1 - o.beta1) / (1 - o.beta1 / o.beta2);
  const double g = gradient + (target.decays ? o.weight_decay : 0) * now.value;
  return {now.value + target.lr * (1 + ratio), std::max(now.moment1, 2 * g), std::max(now.moment2, g + o.eps)};
}

// ---- NAdam --------------------------------------------------------------------------------------

NAdam::NAdam(std::vector<NamedParameter> parameters, const NAdamOptions& options)
    : Optimizer(std::move(parameters), settings("nadam", rules::NAdam{}, options)),
      options_(groups().options_of(options)),
      last_product_(options_.size()) {
  check_options(kind(), options_);
  for (const NAdamOptions& o : options_) detail::check_option(kind(), "momentum_decay", o.momentum_decay, 0, 1e6);
}

UpdateFacts NAdam::facts_of(std::size_t parameter_class) const { return adam_facts(options_[parameter_class]); }

namespace {

double mu_of(const NAdamOptions& o, std::int64_t t) {
  return o.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * o.momentum_decay));
}

}  // namespace

double NAdam::mu_product(std::size_t parameter_class, std::int64_t t) const {
  MuProduct& last = last_product_[parameter_class];
  if (last.t > t) last = {};
  // 1 minus a product below 1e-20 is 1, so smaller products are not computed: at most a few thousand factors in a run.
  for (; last.t < t && last.product > 1e-20; ++last.t) last.product *= mu_of(options_[parameter_class], last.t + 1);
  return last.product;
}

UpdateNumbers NAdam::numbers(const UpdateTarget& target) const {
  const NAdamOptions& o = options_[target.parameter_class];
  UpdateNumbers numbers = detail::adam_numbers(adam_settings(o), target);
  const double product = mu_product(target.parameter_class, target.t), next = mu_of(o, target.t + 1);
  numbers.gradient_share = static_cast<float>(target.lr * (1 - mu_of(o, target.t)) / (1 - product));
  numbers.moment_share = static_cast<float>(target.lr * next / (1 - product * next));
  return numbers;
}

Optimizer::Magnitudes NAdam::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const NAdamOptions& o = options_[target.parameter_class];
  // The share of g is at most 1, that of m at most beta1 / (1 - beta1^2), because mu_t <= beta1. The quotient of g is
  // at most 1 / sqrt(1 - beta2), which is below Adam's bound for m.
  return detail::adam_bound(adam_settings(o), now, gradient, target, 1 + o.beta1 / (1 - o.beta1 * o.beta1));
}

// ---- RAdam --------------------------------------------------------------------------------------

RAdam::RAdam(std::vector<NamedParameter> parameters, const RAdamOptions& options)
    : Optimizer(std::move(parameters), settings("radam", rules::Adam{}, options)),
      options_(groups().options_of(options)) {
  check_options(kind(), options_);
}

UpdateFacts RAdam::facts_of(std::size_t parameter_class) const { return adam_facts(options_[parameter_class]); }

UpdateNumbers RAdam::numbers(const UpdateTarget& target) const {
  const RAdamOptions& o = options_[target.parameter_class];
  UpdateNumbers numbers = detail::adam_numbers(adam_settings(o), target);
  const auto t = static_cast<double>(target.t);
  const double left = std::pow(o.beta2, t), longest = 2 / (1 - o.beta2) - 1;
  const double length = longest - 2 * t * left / (1 - left);
  if (length > 5) {
    const double rectified = std::sqrt((length - 4) * (length - 2) * longest /
                                       ((longest - 4) * (longest - 2) * length));
    numbers.step_size = static_cast<float>(target.lr / (1 - std::pow(o.beta1, t)) * rectified * std::sqrt(1 - left));
    numbers.root_factor = 1;
  } else {
    // The kernel computes m / (0 sqrt(v) + 1) = m: the step is not divided by the root.
    numbers.root_factor = 0;
    numbers.eps = 1;
  }
  return numbers;
}

Optimizer::Magnitudes RAdam::bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const {
  const RAdamOptions& o = options_[target.parameter_class];
  Magnitudes after = detail::adam_bound(adam_settings(o), now, gradient, target);
  // An update that is not divided is at most lr m / (1 - beta1^t).
  after.value += target.lr * after.moment1 / (1 - o.beta1);
  return after;
}

}  // namespace binade::optim
