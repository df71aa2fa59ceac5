#include "binade/optim/sgd.h"

#include <algorithm>

#include "binade/core/error.h"

namespace binade::optim {
namespace {

UpdateRule rule_of(const SgdOptions& options) {
  if (options.momentum > 0) return rules::Momentum{};
  return rules::Sgd{};
}

}  // namespace

Sgd::Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), {.kind = "sgd",
                                        .rule = rule_of(options),
                                        .lr = options.lr,
                                        .moment_dtype = options.moment_dtype,
                                        .decays = options.decays}),
      options_(options) {
  detail::check_option("sgd", "momentum", options.momentum, 0, 1, true);
  detail::check_option("sgd", "dampening", options.dampening, 0, 1);
  detail::check_option("sgd", "weight_decay", options.weight_decay, 0, 1e6);
  check<ArgumentError>(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                       "sgd: nesterov wants momentum > 0 and dampening 0, got {} and {}", options.momentum,
                       options.dampening);
  detail::check_moment_settings("sgd", options.moment_dtype, 0, 0, options.weight_decay);
}

UpdateNumbers Sgd::numbers(bool decays, std::int64_t t, double lr) const {
  const auto momentum = static_cast<float>(options_.momentum);
  const bool first = t == 1;  // the first update sets the moment to the gradient
  return {.step_size = static_cast<float>(lr),
          .l2 = decays ? static_cast<float>(options_.weight_decay) : 0.0f,
          .beta1 = first ? 0.0f : momentum,
          .one_minus_beta1 = first ? 1.0f : static_cast<float>(1 - options_.dampening),
          .gradient_share = options_.nesterov ? 1.0f : 0.0f,
          .moment_share = options_.nesterov ? momentum : 1.0f};
}

Optimizer::Magnitudes Sgd::bound(const Magnitudes& now, double gradient, bool decays, double lr) const {
  const double g = gradient + (decays ? options_.weight_decay : 0) * now.value;
  const double m = options_.momentum * now.moment1 + g;
  const double d = options_.momentum > 0 ? std::max(m, g + options_.momentum * m) : g;
  return {now.value + lr * d, options_.momentum > 0 ? m : 0, 0};
}

}  // namespace binade::optim
