#include <algorithm>
#include <cmath>
#include <numbers>

#include "binade/core/error.h"
#include "binade/optim/schedule.h"

namespace binade::optim {
namespace {

void check_lr(const char* kind, double lr) {
  check<ArgumentError>(std::isfinite(lr) && lr >= 0, "schedule: {} wants a finite lr >= 0, got {}", kind, lr);
}
void check_factor(const char* kind, double factor) {
  check<ArgumentError>(factor > 0 && factor <= 1, "schedule: {} wants a factor in (0, 1], got {}", kind, factor);
}
void check_min_lr(const char* kind, double lr, double min_lr) {
  check<ArgumentError>(min_lr >= 0 && min_lr <= lr, "schedule: {} wants min_lr in [0, lr = {}], got {}", kind, lr,
                       min_lr);
}

/// Goes from `from` to `to` along half a cosine, as `share` goes from 0 to 1.
double half_cosine(double from, double to, double share) {
  return to + 0.5 * (from - to) * (1 + std::cos(std::numbers::pi * share));
}

/// A function with a name and its highest rate.
template <class F>
struct Rule {
  std::string name;
  double peak;
  F f;
  std::string kind() const { return name; }
  double peak_lr() const { return peak; }
  double operator()(std::int64_t k) const { return f(k); }
};
template <class F>
Rule(std::string, double, F) -> Rule<F>;

}  // namespace

Schedule Schedule::step(double lr, std::int64_t every, double factor, std::int64_t warmup) {
  check_lr("step", lr);
  check_factor("step", factor);
  check<ArgumentError>(every > 0, "schedule: step wants a drop every > 0 updates, got {}", every);
  return Schedule(Rule("step", lr,
                       [=](std::int64_t k) { return lr * std::pow(factor, static_cast<double>((k - 1) / every)); }),
                  warmup);
}

Schedule Schedule::multi_step(double lr, std::vector<std::int64_t> milestones, double factor, std::int64_t warmup) {
  check_lr("multi-step", lr);
  check_factor("multi-step", factor);
  check<ArgumentError>(std::ranges::is_sorted(milestones) && !milestones.empty(),
                       "schedule: multi-step wants at least one milestone, in ascending order");
  return Schedule(Rule("multi-step", lr,
                       [=](std::int64_t k) {
                         const auto passed = std::ranges::upper_bound(milestones, k - 1) - milestones.begin();
                         return lr * std::pow(factor, static_cast<double>(passed));
                       }),
                  warmup);
}

Schedule Schedule::exponential(double lr, double factor, std::int64_t warmup) {
  check_lr("exponential", lr);
  check_factor("exponential", factor);
  return Schedule(Rule("exponential", lr,
                       [=](std::int64_t k) { return lr * std::pow(factor, static_cast<double>(k - 1)); }),
                  warmup);
}

Schedule Schedule::one_cycle(double lr, std::int64_t steps, double rise, double start_divisor, double end_divisor) {
  check_lr("one-cycle", lr);
  check<ArgumentError>(steps > 1 && rise > 0 && rise < 1,
                       "schedule: one-cycle wants steps > 1 and rise in (0, 1), got "
                       "{} and {}",
                       steps, rise);
  check<ArgumentError>(start_divisor >= 1 && end_divisor >= 1, "schedule: one-cycle wants divisors >= 1, got {} and {}",
                       start_divisor, end_divisor);
  const double start = lr / start_divisor, end = start / end_divisor;
  const double top = std::max(rise * static_cast<double>(steps) - 1, 0.0), last = static_cast<double>(steps - 1);
  return Schedule(Rule("one-cycle", lr, [=](std::int64_t k) {
    const double at = std::min(static_cast<double>(k - 1), last);
    return at < top ? half_cosine(start, lr, at / top) : half_cosine(lr, end, (at - top) / (last - top));
  }));
}

Schedule Schedule::cosine_restarts(double lr, std::int64_t cycle, std::int64_t growth, double min_lr,
                                   std::int64_t warmup) {
  check_lr("cosine-restarts", lr);
  check_min_lr("cosine-restarts", lr, min_lr);
  check<ArgumentError>(cycle > 0 && growth > 0,
                       "schedule: cosine-restarts wants cycle > 0 and growth > 0, got {} and {}", cycle, growth);
  return Schedule(Rule("cosine-restarts", lr,
                       [=](std::int64_t k) {
                         std::int64_t at = k - 1, length = cycle;
                         if (growth == 1) at %= length;
                         for (; at >= length; length *= growth) at -= length;
                         return half_cosine(lr, min_lr, static_cast<double>(at) / static_cast<double>(length));
                       }),
                  warmup);
}

Schedule Schedule::wsd(double lr, std::int64_t steps, std::int64_t decay, double min_lr, std::int64_t warmup) {
  check_lr("wsd", lr);
  check_min_lr("wsd", lr, min_lr);
  check<ArgumentError>(decay > 0 && warmup >= 0 && decay + warmup <= steps,
                       "schedule: wsd wants decay > 0 and warmup + decay <= steps, got {} + {} and {}", warmup, decay,
                       steps);
  const std::int64_t begin = steps - warmup - decay;  // updates at lr after the warm-up
  return Schedule(Rule("wsd", lr,
                       [=](std::int64_t k) {
                         const double f = static_cast<double>(k - begin) / static_cast<double>(decay);
                         return lr + (min_lr - lr) * std::clamp(f, 0.0, 1.0);
                       }),
                  warmup);
}

Schedule Schedule::lambda(double lr, std::function<double(std::int64_t k)> factor, std::int64_t warmup) {
  check_lr("lambda", lr);
  check<ArgumentError>(factor != nullptr, "schedule: lambda wants a function");
  constexpr std::int64_t kUpdates = 10000;
  double highest = 0;
  for (std::int64_t k = 1; k <= kUpdates; ++k) highest = std::max(highest, factor(k));
  return Schedule(Rule("lambda", lr * highest, [lr, f = std::move(factor)](std::int64_t k) { return lr * f(k); }),
                  warmup);
}

}  // namespace binade::optim
