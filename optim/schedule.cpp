#include "binade/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "binade/core/error.h"
#include "binade/core/state_counts.h"

namespace binade::optim {
namespace {
constexpr std::string_view kNames[] = {"constant", "linear", "cosine", "plateau"};

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

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max();

/// Returns a b, or the largest number if that is larger. Both are > 0.
std::int64_t product(std::int64_t a, std::int64_t b) { return a > kMaxCount / b ? kMaxCount : a * b; }

/// Goes from `from` to `to` along half a cosine, as `share` goes from 0 to 1.
double half_cosine(double from, double to, double share) {
  return to + 0.5 * (from - to) * (1 + std::cos(std::numbers::pi * share));
}

/// A schedule rule (optim/schedule_rule.h) made of a function, its name and its highest rate.
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

/// lr times the factors of updates 2 to k. A product continues from the last one computed.
struct Product {
  double lr;
  std::function<double(std::int64_t)> factor;
  mutable std::int64_t last = 1;
  mutable double product = 1;

  std::string kind() const { return "multiplicative"; }
  double peak_lr() const { return lr; }
  double operator()(std::int64_t k) const {
    if (last > k) last = 1, product = 1;
    while (last < k) product *= factor(++last);
    return lr * product;
  }
};

/// Base of schedules that consist of other schedules.
struct Parts {
  std::vector<Schedule> parts;

  void observe(double loss) {
    for (Schedule& part : parts) part.observe(loss);
  }
  StateDict state() const {
    StateDict state;
    for (std::size_t i = 0; i < parts.size(); ++i) state.merge(fmt::format("{}", i), parts[i].state());
    return state;
  }
  void load_state(const StateDict& state) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const StateDict one = state.section(fmt::format("{}", i));
      check<CheckpointError>(!one.empty(), "schedule: the checkpoint has no state of part {} of {}", i, parts.size());
      parts[i].load_state(one);
    }
  }
};

struct Sequence : Parts {
  std::vector<std::int64_t> milestones;

  std::string kind() const { return "sequential"; }
  double peak_lr() const { return std::ranges::max(parts, {}, highest).options().lr; }
  double operator()(std::int64_t k) const {
    const auto passed = std::ranges::upper_bound(milestones, k - 1) - milestones.begin();
    const std::int64_t begin = passed > 0 ? milestones[static_cast<std::size_t>(passed - 1)] : 0;
    return parts[static_cast<std::size_t>(passed)].lr(k - begin);
  }
  static double highest(const Schedule& part) { return part.options().lr; }
};

struct Chain : Parts {
  std::string kind() const { return "chained"; }
  double peak_lr() const {
    double lr = 1;
    for (const Schedule& part : parts) lr *= part.options().lr;
    return lr;
  }
  double operator()(std::int64_t k) const {
    double lr = 1;
    for (const Schedule& part : parts) lr *= part.lr(k);
    return lr;
  }
};

}  // namespace

std::span<const std::string_view> schedule_names() { return kNames; }

std::string_view name_of(ScheduleKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

ScheduleKind schedule_kind(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  check<ArgumentError>(found != std::end(kNames), "schedule: wanted one of {}, got '{}'", fmt::join(kNames, ", "),
                       name);
  return static_cast<ScheduleKind>(found - kNames);
}

Schedule::Schedule(const ScheduleOptions& options)
    : options_(options), kind_(name_of(options.kind)), plateau_lr_(options.lr) {
  const ScheduleOptions& o = options_;
  check<ArgumentError>(std::isfinite(o.lr) && o.lr >= 0, "schedule: wanted a finite lr >= 0, got {}", o.lr);
  check<ArgumentError>(o.min_lr >= 0 && o.min_lr <= o.lr, "schedule: wanted min_lr in [0, lr = {}], got {}", o.lr,
                       o.min_lr);
  check<ArgumentError>(o.warmup >= 0, "schedule: wanted warmup >= 0, got {}", o.warmup);
  const bool ends = o.kind != ScheduleKind::kConstant && o.kind != ScheduleKind::kPlateau;
  check<ArgumentError>(!ends || o.steps > 0, "schedule: {} wants steps > 0, got {}", name_of(o.kind), o.steps);
  check<ArgumentError>(o.kind != ScheduleKind::kPlateau ||
                           (o.factor > 0 && o.factor < 1 && o.patience >= 0 && o.threshold >= 0),
                       "schedule: plateau wants factor in (0, 1), patience >= 0 and threshold >= 0, got {}, {} and {}",
                       o.factor, o.patience, o.threshold);
}

Schedule::Schedule(detail::ScheduleRulePointer rule, std::int64_t warmup)
    : Schedule({.lr = rule->peak_lr(), .warmup = warmup}) {
  rule_ = rule;
  initial_rule_ = std::move(rule);
  kind_ = rule_->kind();
  check<ArgumentError>(!kind_.empty() && std::ranges::find(kNames, kind_) == std::end(kNames),
                       "schedule: a rule cannot have the kind '{}'; give it a name that no kind of Binade has", kind_);
}

Schedule Schedule::constant(double lr, std::int64_t warmup) { return Schedule({.lr = lr, .warmup = warmup}); }
Schedule Schedule::linear(double lr, std::int64_t steps, double min_lr, std::int64_t warmup) {
  return Schedule({ScheduleKind::kLinear, lr, min_lr, warmup, steps});
}
Schedule Schedule::cosine(double lr, std::int64_t steps, double min_lr, std::int64_t warmup) {
  return Schedule({ScheduleKind::kCosine, lr, min_lr, warmup, steps});
}
Schedule Schedule::plateau(double lr, double factor, std::int64_t patience, double min_lr) {
  return Schedule({.kind = ScheduleKind::kPlateau, .lr = lr, .min_lr = min_lr, .factor = factor, .patience = patience});
}

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
  check<ArgumentError>(steps > 0 && rise > 0 && rise < 1,
                       "schedule: one-cycle wants steps > 0 and rise in (0, 1), got "
                       "{} and {}",
                       steps, rise);
  check<ArgumentError>(start_divisor >= 1 && end_divisor >= 1, "schedule: one-cycle wants divisors >= 1, got {} and {}",
                       start_divisor, end_divisor);
  const double start = lr / start_divisor, end = start / end_divisor;
  // Below 0 if the rise is shorter than one update: then the rate falls from the first update on, as in PyTorch.
  const double top = rise * static_cast<double>(steps) - 1, last = static_cast<double>(steps - 1);
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
                         for (; at >= length; length = product(length, growth)) at -= length;
                         return half_cosine(lr, min_lr, static_cast<double>(at) / static_cast<double>(length));
                       }),
                  warmup);
}

Schedule Schedule::wsd(double lr, std::int64_t steps, std::int64_t decay, double min_lr, std::int64_t warmup) {
  check_lr("wsd", lr);
  check_min_lr("wsd", lr, min_lr);
  check<ArgumentError>(decay > 0 && warmup >= 0 && warmup <= steps && decay <= steps - warmup,
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

Schedule Schedule::multiplicative(double lr, std::function<double(std::int64_t k)> factor, std::int64_t warmup) {
  check_lr("multiplicative", lr);
  check<ArgumentError>(factor != nullptr, "schedule: multiplicative wants a function");
  return Schedule(Product{.lr = lr, .factor = std::move(factor)}, warmup);
}

Schedule Schedule::polynomial(double lr, std::int64_t steps, double power, double min_lr, std::int64_t warmup) {
  check_lr("polynomial", lr);
  check_min_lr("polynomial", lr, min_lr);
  check<ArgumentError>(steps > 0 && power > 0 && power <= 100,
                       "schedule: polynomial wants steps > 0 and power in (0, 100], got {} and {}", steps, power);
  return Schedule(Rule("polynomial", lr,
                       [=](std::int64_t k) {
                         const double left = 1 - static_cast<double>(k - 1) / static_cast<double>(steps);
                         return min_lr + (lr - min_lr) * std::pow(std::max(left, 0.0), power);
                       }),
                  warmup);
}

Schedule Schedule::constant_then(double lr, double factor, std::int64_t steps, std::int64_t warmup) {
  check_lr("constant-then", lr);
  check_factor("constant-then", factor);
  check<ArgumentError>(steps >= 0, "schedule: constant-then wants steps >= 0, got {}", steps);
  return Schedule(Rule("constant-then", lr, [=](std::int64_t k) { return k <= steps ? lr * factor : lr; }), warmup);
}

Schedule Schedule::ramp(double lr, double begin, double end, std::int64_t steps, std::int64_t warmup) {
  check_lr("ramp", lr);
  check<ArgumentError>(begin >= 0 && end >= 0 && std::max(begin, end) <= 1e6 && steps > 0,
                       "schedule: ramp wants begin and end in [0, 1e6] and steps > 0, got {}, {} and {}", begin, end,
                       steps);
  return Schedule(Rule("ramp", lr * std::max(begin, end),
                       [=](std::int64_t k) {
                         const double share = static_cast<double>(k - 1) / static_cast<double>(steps);
                         return lr * (begin + (end - begin) * std::min(share, 1.0));
                       }),
                  warmup);
}

Schedule Schedule::cyclic(double lr, double min_lr, std::int64_t up, std::int64_t down, Cycle cycle, double gamma,
                          std::int64_t warmup) {
  check_lr("cyclic", lr);
  check_min_lr("cyclic", lr, min_lr);
  check<ArgumentError>(up > 0 && down >= 0, "schedule: cyclic wants up > 0 and down >= 0, got {} and {}", up, down);
  check_factor("cyclic", gamma);
  if (down == 0) down = up;
  check<ArgumentError>(down <= kMaxCount - up, "schedule: cyclic wants up + down <= {}, got {} + {}", kMaxCount, up,
                       down);
  return Schedule(Rule("cyclic", lr,
                       [=](std::int64_t k) {
                         const std::int64_t number = (k - 1) / (up + down), at = (k - 1) % (up + down);
                         double height = at <= up ? static_cast<double>(at) / static_cast<double>(up)
                                                  : static_cast<double>(up + down - at) / static_cast<double>(down);
                         if (cycle == Cycle::kTriangular2)
                           height = std::ldexp(height, -static_cast<int>(std::min<std::int64_t>(number, 2000)));
                         if (cycle == Cycle::kExpRange) height *= std::pow(gamma, static_cast<double>(k - 1));
                         return min_lr + (lr - min_lr) * height;
                       }),
                  warmup);
}

Schedule Schedule::inverse_sqrt(double lr, std::int64_t warmup) {
  check_lr("inverse-sqrt", lr);
  check<ArgumentError>(warmup > 0, "schedule: inverse-sqrt wants warmup > 0, got {}", warmup);
  return Schedule(Rule("inverse-sqrt", lr, [=](std::int64_t k) {
    const double share = static_cast<double>(k) / static_cast<double>(warmup);
    return lr * std::min(share, 1 / std::sqrt(share));
  }));
}

Schedule Schedule::sequential(std::vector<Schedule> parts, std::vector<std::int64_t> milestones, std::int64_t warmup) {
  check<ArgumentError>(
      !parts.empty() && milestones.size() + 1 == parts.size() &&
          std::ranges::is_sorted(milestones, std::ranges::less_equal{}) &&
          (milestones.empty() || milestones.front() > 0),
      "schedule: sequential wants at least one part, and one milestone fewer, in ascending order from 1; "
      "got {} parts and {} milestones",
      parts.size(), milestones.size());
  return Schedule(Sequence{{std::move(parts)}, std::move(milestones)}, warmup);
}

Schedule Schedule::chained(std::vector<Schedule> parts, std::int64_t warmup) {
  check<ArgumentError>(!parts.empty(), "schedule: chained wants at least one part");
  return Schedule(Chain{{std::move(parts)}}, warmup);
}

Schedule Schedule::with_warmup(std::int64_t updates) const {
  check<ArgumentError>(updates >= 0, "schedule: wanted a warm-up of >= 0 updates, got {}", updates);
  check<ArgumentError>(options_.warmup == 0, "schedule: '{}' has a warm-up of {} updates already", kind_,
                       options_.warmup);
  const bool ends = !rule_ && options_.kind != ScheduleKind::kConstant && options_.kind != ScheduleKind::kPlateau;
  check<ArgumentError>(!ends || updates < options_.steps,
                       "schedule: wanted a warm-up shorter than the {} steps of '{}', got {}", options_.steps, kind_,
                       updates);
  Schedule warm = *this;
  warm.options_.warmup = updates;
  return warm;
}

double Schedule::lr(std::int64_t k) const {
  const ScheduleOptions& o = options_;
  if (rule_) {
    const double lr = k > o.warmup ? rule_->lr(k - o.warmup)
                                   : rule_->lr(1) * static_cast<double>(k) / static_cast<double>(o.warmup);
    check<ArgumentError>(std::isfinite(lr) && lr >= 0,
                         "schedule '{}': wanted a finite learning rate >= 0 for update {}, got {}", kind_, k, lr);
    return lr;
  }
  const double peak = o.kind == ScheduleKind::kPlateau ? plateau_lr_ : o.lr;
  if (k <= o.warmup) return peak * static_cast<double>(k) / static_cast<double>(o.warmup);
  if (o.kind == ScheduleKind::kConstant || o.kind == ScheduleKind::kPlateau) return peak;
  if (k >= o.steps) return o.min_lr;
  const double f = static_cast<double>(k - o.warmup) / static_cast<double>(o.steps - o.warmup);
  if (o.kind == ScheduleKind::kLinear) return o.lr + (o.min_lr - o.lr) * f;
  return o.min_lr + 0.5 * (o.lr - o.min_lr) * (1 + std::cos(std::numbers::pi * f));
}

void Schedule::observe(double loss) {
  if (rule_) return rule_->observe(loss);
  if (options_.kind != ScheduleKind::kPlateau || !std::isfinite(loss)) return;
  if (loss < best_ * (best_ < 0 ? 1 + options_.threshold : 1 - options_.threshold)) {
    best_ = loss;
    losses_since_best_ = 0;
    return;
  }
  if (++losses_since_best_ <= options_.patience) return;
  const double next = std::max(plateau_lr_ * options_.factor, options_.min_lr);
  if (plateau_lr_ - next > 1e-8) plateau_lr_ = next;  // like PyTorch, which ignores smaller drops
  losses_since_best_ = 0;
}

void Schedule::restart() {
  rule_ = initial_rule_;
  plateau_lr_ = options_.lr;
  best_ = std::numeric_limits<double>::infinity();
  losses_since_best_ = 0;
}

StateDict Schedule::state() const {
  StateDict state;
  state.put("kind", kind_);
  state.put("lr", options_.lr);
  state.put("plateau_lr", plateau_lr_);
  // Before the first observation best_ is infinite. It is saved as an empty list, because a checkpoint contains finite
  // numbers only.
  state.put("best", std::isfinite(best_) ? StateDict::Numbers{best_} : StateDict::Numbers{});
  state.put("bad", losses_since_best_);
  if (rule_) state.merge("rule", rule_->state());
  return state;
}

void Schedule::check_state(const StateDict& state) const {
  if (const std::string& kind = state.text("kind"); rule_ && kind == kind_)
    detail::ScheduleRulePointer(rule_)->load_state(state.section("rule"));
  state.number("plateau_lr");
  state.numbers("best");
  read_count(state, "bad");
}

void Schedule::load_state(const StateDict& state) {
  check_state(state);
  if (rule_ && state.text("kind") == kind_) return rule_->load_state(state.section("rule"));
  if (rule_ || state.text("kind") != kind_) {
    restart();
    return;
  }
  const double then = state.contains("lr") ? state.number("lr") : options_.lr;  // "lr" is missing in older checkpoints
  plateau_lr_ = state.number("plateau_lr");
  if (then != options_.lr) {
    const double share = then > 0 ? plateau_lr_ / then : 1;
    plateau_lr_ = std::max(options_.lr * share, options_.min_lr);
  }
  const StateDict::Numbers& best = state.numbers("best");
  best_ = best.empty() ? std::numeric_limits<double>::infinity() : best.front();
  losses_since_best_ = read_count(state, "bad");
}

}  // namespace binade::optim
