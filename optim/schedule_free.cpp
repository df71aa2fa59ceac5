#include "binade/optim/schedule_free.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/core/error.h"

namespace binade::optim {

ScheduleFreeAdamW::ScheduleFreeAdamW(std::vector<NamedParameter> parameters, const ScheduleFreeAdamWOptions& options)
    : Optimizer(std::move(parameters), {.kind = "schedule_free_adamw",
                                        .rule = rules::ScheduleFree{},
                                        .lr = options.lr,
                                        .decays = options.decays,
                                        .groups = options.groups,
                                        .maximize = options.maximize}),
      options_(groups().options_of(options)),
      last_sum_(options_.size()) {
  for (const ScheduleFreeAdamWOptions& o : options_) {
    detail::check_option(kind(), "beta1", o.beta1, 1e-3, 1, true);
    detail::check_option(kind(), "beta2", o.beta2, 0, 1, true);
    detail::check_option(kind(), "eps", o.eps, 0, 1);
    detail::check_option(kind(), "weight_decay", o.weight_decay, 0, 1e6);
    detail::check_option(kind(), "r", o.r, 0, 100);
    detail::check_option(kind(), "weight_lr_power", o.weight_lr_power, 0, 100);
    check<ArgumentError>(o.warmup >= 0, "{}: wanted warmup >= 0, got {}", kind(), o.warmup);
  }
}

UpdateFacts ScheduleFreeAdamW::facts_of(std::size_t parameter_class) const {
  const ScheduleFreeAdamWOptions& o = options_[parameter_class];
  // A weight moves only by 1 - beta1 (a tenth) of the rate, so that nothing is stated about the sizes of updates.
  return {.stated = false,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .decoupled_decay = o.weight_decay,
          .divides_by_root = true};
}

double ScheduleFreeAdamW::warm(std::size_t parameter_class, std::int64_t t) const {
  const std::int64_t warmup = options_[parameter_class].warmup;
  return t < warmup ? static_cast<double>(t) / static_cast<double>(warmup) : 1;
}

double ScheduleFreeAdamW::newest_weight(std::size_t parameter_class, std::int64_t t) const {
  const ScheduleFreeAdamWOptions& o = options_[parameter_class];
  // The weights of updates in the average may exceed the range of double: t^r, and the powers of the first rates of a
  // warm-up.
  const auto share_of_weight_before = [&](std::int64_t update) {
    const auto now = static_cast<double>(update);
    const double warmth = warm(parameter_class, update - 1) / warm(parameter_class, update);
    return std::pow((now - 1) / now, o.r) * std::pow(warmth, o.weight_lr_power);
  };
  WeightSum& last = last_sum_[parameter_class];
  if (last.t == 0 || last.t > t) last = {.t = 1, .sum = 1};
  while (last.t < t) last.sum = 1 + last.sum * share_of_weight_before(++last.t);
  return 1 / last.sum;
}

UpdateNumbers ScheduleFreeAdamW::numbers(const UpdateTarget& target) const {
  const ScheduleFreeAdamWOptions& o = options_[target.parameter_class];
  const double lr = target.lr * warm(target.parameter_class, target.t);
  const double newest = newest_weight(target.parameter_class, target.t);
  return {.step_size = static_cast<float>(lr),
          .l2 = target.decays ? static_cast<float>(o.weight_decay) : 0.0f,
          .beta2 = static_cast<float>(o.beta2),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2),
          .root_factor = static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, static_cast<double>(target.t)))),
          .eps = static_cast<float>(o.eps),
          .gradient_share = static_cast<float>(lr * (1 - o.beta1 * (1 - newest))),
          .moment_share = static_cast<float>(newest)};
}

Optimizer::Magnitudes ScheduleFreeAdamW::bound(const Magnitudes& now, double gradient,
                                               const UpdateTarget& target) const {
  const ScheduleFreeAdamWOptions& o = options_[target.parameter_class];
  if (o.eps < 1e-20) return {std::numeric_limits<double>::infinity(), now.moment1, now.moment2};
  // v / (1 - beta2^t) is at least (1 - beta2) g^2.
  const double d = 1 + 1 / std::sqrt(1 - o.beta2) + (target.decays ? o.weight_decay : 0) * now.value;
  const double z = std::max(now.moment1, now.value), step = target.lr * d;
  return {z + step, z + step, std::max(now.moment2, gradient * gradient)};
}

}  // namespace binade::optim
