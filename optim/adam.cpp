#include "binade/optim/adam.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace binade::optim {

AdamBase::AdamBase(std::vector<NamedParameter> parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(std::move(parameters), {.kind = decoupled ? "adamw" : "adam",
                                        .rule = rules::Adam{},
                                        .lr = options.lr,
                                        .moment_dtype = options.moment_dtype,
                                        .decays = options.decays}),
      options_(options),
      decoupled_(decoupled) {
  detail::check_option(kind(), "beta1", options.beta1, 0, 1, true);
  detail::check_option(kind(), "beta2", options.beta2, 0, 1, true);
  detail::check_option(kind(), "eps", options.eps, 0, 1);
  detail::check_option(kind(), "weight_decay", options.weight_decay, 0, 1e6);
  detail::check_moment_settings(kind(), options.moment_dtype, options.eps, options.beta2, options.weight_decay);
}

AdamW::AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& o)
    : AdamBase(std::move(parameters), {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.moment_dtype, o.decays}, true) {
}

UpdateFacts AdamBase::facts() const {
  return {.beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .eps = options_.eps,
          .decoupled_decay = decoupled_ ? options_.weight_decay : 0,
          .divides_by_root = true,
          .unit_steps = true,
          .moment_dtype = options_.moment_dtype};
}

UpdateNumbers AdamBase::numbers(bool decays, std::int64_t t, double lr) const {
  const auto steps = static_cast<double>(t);
  const double decay = decays ? options_.weight_decay : 0;
  return {.step_size = static_cast<float>(lr / (1 - std::pow(options_.beta1, steps))),
          .keep = decoupled_ ? static_cast<float>(1 - lr * decay) : 1.0f,
          .l2 = decoupled_ ? 0.0f : static_cast<float>(decay),
          .beta1 = static_cast<float>(options_.beta1),
          .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
          .beta2 = static_cast<float>(options_.beta2),
          .one_minus_beta2 = static_cast<float>(1 - options_.beta2),
          .root_factor = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, steps))),
          .eps = static_cast<float>(options_.eps)};
}

Optimizer::Magnitudes AdamBase::bound(const Magnitudes& now, double gradient, bool decays, double lr) const {
  const double b1 = options_.beta1, b2 = options_.beta2;
  // m and v are averages of the same gradients, so by Cauchy-Schwarz |m / (1 - b1^t)| / sqrt(v / (1 - b2^t)) is at most
  // 1 / sqrt((1 - b2)(1 - b1^2 / b2)) at every t. If g^2 underflows, so that v = 0, eps keeps the quotient finite.
  if (!(b1 * b1 < b2) || options_.eps < 1e-20)
    return {std::numeric_limits<double>::infinity(), now.moment1, now.moment2};
  const double ratio = 1 + 1 / std::sqrt((1 - b2) * (1 - b1 * b1 / b2));
  const double decay = decays ? options_.weight_decay : 0;
  const double g = gradient + (decoupled_ ? 0 : decay * now.value);
  const double keep = decoupled_ ? std::abs(1 - lr * decay) : 1;
  // The update kernel computes v from g^2, which must not overflow either, so moment2 is bounded by g^2 too.
  return {keep * now.value + lr * ratio, std::max(now.moment1, 2 * g), std::max(now.moment2, g * g)};
}

}  // namespace binade::optim
