#include "binade/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "binade/core/error.h"
#include "binade/core/state_counts.h"

namespace binade::optim {
namespace {
constexpr std::string_view kNames[] = {"constant", "linear", "cosine", "plateau"};

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
  unused_rule_ = std::move(rule);
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

Schedule Schedule::with_warmup(std::int64_t updates) const {
  check<ArgumentError>(updates >= 0, "schedule: wanted a warm-up of >= 0 updates, got {}", updates);
  check<ArgumentError>(options_.warmup == 0, "schedule: '{}' has a warm-up of {} updates already", kind_,
                       options_.warmup);
  const bool ends = !rule_ && (options_.kind == ScheduleKind::kLinear || options_.kind == ScheduleKind::kCosine);
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
  rule_ = unused_rule_;
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
