#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/optim/schedule_rule.h"

namespace binade::optim {

enum class ScheduleKind : std::uint8_t { kConstant, kLinear, kCosine, kPlateau };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 1e-3;         ///< learning rate after warm-up, the largest of the schedule
  double min_lr = 0;        ///< linear, cosine: final learning rate; plateau: smallest learning rate
  std::int64_t warmup = 0;  ///< number of updates in which the rate rises linearly from 0 to `lr`
  std::int64_t steps = 0;   ///< linear, cosine: number of the update that reaches min_lr, from 1
  double factor = 0.1;      ///< plateau: each drop multiplies the rate by it
  /// Plateau: the rate drops if more than this number of losses in a row are not better
  std::int64_t patience = 10;
  double threshold = 1e-4;  ///< plateau: a loss is better if it is below the best by more than threshold |best|
};

/// Computes the learning rate of each update k (from 1). With W = warmup and f = min(1, (k - W) / (steps - W)):
///   k <= W: lr k / W.  Afterwards, constant: lr;  linear: lr + (min_lr - lr) f;
///   cosine: min_lr + (lr - min_lr)(1 + cos(pi f)) / 2;
///   plateau: lr factor^d after d drops, at least min_lr.
/// Plateau is PyTorch's ReduceLROnPlateau (mode min, relative threshold), except that it ignores losses that are not
/// finite. Only its rate depends on state, which observe() changes; the other kinds depend on k alone.
class Schedule {
 public:
  /// Throws ArgumentError with the name of an option that is out of range.
  explicit Schedule(const ScheduleOptions& options = {});
  /// A rate that `rule` computes. In the first `warmup` updates the rate rises linearly to rule(1); update k after them
  /// has the rate rule(k - warmup).
  template <class Rule>
  requires(!std::is_same_v<Rule, Schedule> && ScheduleRule<Rule>)
      Schedule(Rule rule, std::int64_t warmup = 0)  // NOLINT(google-explicit-constructor): a function is a schedule
      : Schedule(detail::ScheduleRulePointer(std::make_unique<detail::ErasedScheduleRule<Rule>>(std::move(rule))),
                 warmup) {}

  static Schedule constant(double lr, std::int64_t warmup = 0);
  static Schedule linear(double lr, std::int64_t steps, double min_lr = 0, std::int64_t warmup = 0);
  static Schedule cosine(double lr, std::int64_t steps, double min_lr = 0, std::int64_t warmup = 0);
  static Schedule plateau(double lr, double factor = 0.1, std::int64_t patience = 10, double min_lr = 0);

  // PyTorch's schedules, each with its name in PyTorch after the formula, and wsd. PyTorch's last_epoch is k - 1. After
  // `warmup` updates, k counts from 1 again.

  /// lr factor^floor((k - 1) / every): StepLR.
  static Schedule step(double lr, std::int64_t every, double factor = 0.1, std::int64_t warmup = 0);
  /// lr factor^n, where n is the number of milestones <= k - 1: MultiStepLR. The milestones ascend.
  static Schedule multi_step(double lr, std::vector<std::int64_t> milestones, double factor = 0.1,
                             std::int64_t warmup = 0);
  /// lr factor^(k - 1): ExponentialLR.
  static Schedule exponential(double lr, double factor, std::int64_t warmup = 0);
  /// OneCycleLR with anneal_strategy "cos" and two phases: from lr / start_divisor up to lr in the share `rise` of
  /// `steps`, then down to lr / start_divisor / end_divisor at update `steps`.
  static Schedule one_cycle(double lr, std::int64_t steps, double rise = 0.3, double start_divisor = 25,
                            double end_divisor = 1e4);
  /// CosineAnnealingWarmRestarts: cycles of `cycle`, cycle growth, cycle growth^2, … updates, each from lr to min_lr.
  static Schedule cosine_restarts(double lr, std::int64_t cycle, std::int64_t growth = 1, double min_lr = 0,
                                  std::int64_t warmup = 0);
  /// Warm-up, stable, decay: lr after the warm-up; the last `decay` of `steps` updates go linearly to min_lr.
  static Schedule wsd(double lr, std::int64_t steps, std::int64_t decay, double min_lr = 0, std::int64_t warmup = 0);
  /// lr factor(k): LambdaLR.
  static Schedule lambda(double lr, std::function<double(std::int64_t k)> factor, std::int64_t warmup = 0);
  /// lr factor(2) … factor(k): MultiplicativeLR, whose function gets k - 1.
  static Schedule multiplicative(double lr, std::function<double(std::int64_t k)> factor, std::int64_t warmup = 0);
  /// min_lr + (lr - min_lr)(1 - (k - 1) / steps)^power, at least min_lr: PolynomialLR (with min_lr 0).
  static Schedule polynomial(double lr, std::int64_t steps, double power = 1, double min_lr = 0,
                             std::int64_t warmup = 0);
  /// lr factor in the first `steps` updates, then lr: ConstantLR.
  static Schedule constant_then(double lr, double factor = 1.0 / 3, std::int64_t steps = 5, std::int64_t warmup = 0);
  /// From lr * begin in the first update linearly to lr * end in update steps + 1, then lr * end: LinearLR.
  static Schedule ramp(double lr, double begin = 1.0 / 3, double end = 1, std::int64_t steps = 5,
                       std::int64_t warmup = 0);
  /// Shape of the cycles of cyclic().
  enum class Cycle : std::uint8_t {
    kTriangular,   ///< all cycles reach lr
    kTriangular2,  ///< each cycle is half as high as its predecessor
    kExpRange,     ///< update k is gamma^(k - 1) times as high
  };
  /// CyclicLR: linearly from min_lr to lr in `up` updates, and back in `down` (0: as many as up), again and again.
  static Schedule cyclic(double lr, double min_lr, std::int64_t up = 2000, std::int64_t down = 0,
                         Cycle cycle = Cycle::kTriangular, double gamma = 1, std::int64_t warmup = 0);
  /// lr min(k / warmup, sqrt(warmup / k)): rises linearly to lr, then falls with the square root of k. Vaswani et al.,
  /// "Attention is all you need", 2017, where lr = (model width x warmup)^(-1/2).
  static Schedule inverse_sqrt(double lr, std::int64_t warmup);
  /// SequentialLR: one schedule after the other. Part i + 1 starts, at its update 1, after update milestones[i]. The
  /// milestones ascend, and are one fewer than the parts. observe() passes losses to all parts.
  static Schedule sequential(std::vector<Schedule> parts, std::vector<std::int64_t> milestones,
                             std::int64_t warmup = 0);
  /// The product of the parts' rates: ChainedScheduler, if one part has the learning rate and the others have lr = 1.
  static Schedule chained(std::vector<Schedule> parts, std::int64_t warmup = 0);

  /// Returns a copy whose rate rises linearly in the first `updates` updates and then follows the schedule from its
  /// beginning. Linear and cosine still reach min_lr at their update `steps`. Throws ArgumentError if the schedule has
  /// a warm-up already.
  Schedule with_warmup(std::int64_t updates) const;

  /// Returns the options. Those of a schedule with a rule have only `lr`, the highest rate, and `warmup`.
  const ScheduleOptions& options() const { return options_; }
  std::string_view kind() const { return kind_; }  ///< name of the kind or rule, in checkpoints
  /// Returns the learning rate of update `k`, from 1. Throws ArgumentError unless the rate that a rule returns is
  /// finite and >= 0.
  double lr(std::int64_t k) const;
  /// Plateau: reads the loss of an evaluation and drops the rate if due. A loss that is not finite is ignored. Rules
  /// that have observe() get every loss. Other kinds ignore it.
  void observe(double loss);

  /// True for a plateau schedule that observe() was never called for.
  bool waits_for_loss() const { return options_.kind == ScheduleKind::kPlateau && !rule_ && !observed(); }

  /// Forgets all observations.
  void restart();

  /// Returns the kind, options().lr and the state of plateau: its rate, the best loss and the number of losses since
  /// then. Adds the state of a rule. Other options are not saved.
  StateDict state() const;
  /// Throws CheckpointError if `state` is not the state of a schedule.
  void check_state(const StateDict& state) const;
  /// Restores the state of plateau or of a rule. If it was saved with another options().lr, its rate is scaled by the
  /// ratio of both. A state of another kind of schedule starts this schedule anew.
  void load_state(const StateDict& state);

 private:
  bool observed() const { return best_ < std::numeric_limits<double>::infinity(); }
  Schedule(detail::ScheduleRulePointer rule, std::int64_t warmup);

  ScheduleOptions options_;
  std::string kind_;
  detail::ScheduleRulePointer rule_, initial_rule_;  // the rule now, and before its first observe()
  double plateau_lr_;
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t losses_since_best_ = 0;
};

/// Returns the names of all kinds, in the order of ScheduleKind.
std::span<const std::string_view> schedule_names();
std::string_view name_of(ScheduleKind kind);
/// Returns the kind with this name: "constant", "linear", "cosine" or "plateau". For another name throws ArgumentError
/// with the list of names.
ScheduleKind schedule_kind(std::string_view name);

}  // namespace binade::optim
