#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "binade/core/state_dict.h"

namespace binade::optim {

/// A learning rate that a user defines: a copyable function of the number of the update, from 1, that returns a finite
/// rate >= 0. A lambda is one. A struct may also have
///   std::string kind() const               its name in checkpoints and messages; default "custom"
///   double peak_lr() const                 its highest rate, for pre-flight; default: the highest of 10,000 updates
///   void observe(double loss)              receives the losses of evaluations (Trainer::observe)
///   StateDict state() const                what observe() changes, finite numbers only;
///   void load_state(const StateDict&)      restores it; throws CheckpointError if it cannot
template <class R>
concept ScheduleRule = std::copy_constructible<R> && requires(const R& rule, std::int64_t k) {
  { rule(k) } -> std::convertible_to<double>;
};

namespace detail {

/// A ScheduleRule, type-erased.
class AnyScheduleRule {
 public:
  virtual ~AnyScheduleRule() = default;
  virtual double lr(std::int64_t k) const = 0;
  virtual std::string kind() const = 0;
  virtual double peak_lr() const = 0;
  virtual void observe(double loss) = 0;
  virtual StateDict state() const = 0;
  virtual void load_state(const StateDict& state) = 0;
  virtual std::unique_ptr<AnyScheduleRule> clone() const = 0;
};

template <ScheduleRule R>
class ErasedScheduleRule final : public AnyScheduleRule {
 public:
  explicit ErasedScheduleRule(R rule) : rule_(std::move(rule)) {}

  double lr(std::int64_t k) const override { return rule_(k); }
  std::string kind() const override {
    if constexpr (requires(const R& r) { r.kind(); })
      return rule_.kind();
    else
      return "custom";
  }
  double peak_lr() const override {
    if constexpr (requires(const R& r) { r.peak_lr(); }) {
      return rule_.peak_lr();
    } else {
      constexpr std::int64_t kUpdates = 10000;
      double highest = 0;
      for (std::int64_t k = 1; k <= kUpdates; ++k) highest = std::max<double>(highest, rule_(k));
      return highest;
    }
  }
  void observe(double loss) override {
    if constexpr (kObserves) rule_.observe(loss);
  }
  StateDict state() const override {
    if constexpr (kSaves)
      return rule_.state();
    else
      return {};
  }
  void load_state([[maybe_unused]] const StateDict& state) override {
    if constexpr (kLoads) rule_.load_state(state);
  }
  std::unique_ptr<AnyScheduleRule> clone() const override { return std::make_unique<ErasedScheduleRule>(rule_); }

 private:
  static constexpr bool kObserves = requires(R & r) { r.observe(1.0); };
  static constexpr bool kSaves = requires(const R& r) { StateDict(r.state()); };
  static constexpr bool kLoads = requires(R & r, const StateDict& s) { r.load_state(s); };
  static_assert(kSaves == kLoads, "a schedule that has one of state() and load_state() needs both");
  static_assert(!kObserves || kSaves, "a schedule with observe() needs state() and load_state(), to resume");

  R rule_;
};

/// A copyable pointer to a rule; each copy owns a copy of the rule. May be empty.
class ScheduleRulePointer {
 public:
  ScheduleRulePointer() = default;
  explicit ScheduleRulePointer(std::unique_ptr<AnyScheduleRule> rule) : rule_(std::move(rule)) {}
  ScheduleRulePointer(const ScheduleRulePointer& other) : rule_(other.rule_ ? other.rule_->clone() : nullptr) {}
  ScheduleRulePointer(ScheduleRulePointer&&) = default;
  ScheduleRulePointer& operator=(ScheduleRulePointer other) {
    rule_ = std::move(other.rule_);
    return *this;
  }
  ~ScheduleRulePointer() = default;

  AnyScheduleRule* operator->() const { return rule_.get(); }
  explicit operator bool() const { return rule_ != nullptr; }

 private:
  std::unique_ptr<AnyScheduleRule> rule_;
};

}  // namespace detail

}  // namespace binade::optim
