#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "binade/core/state_dict.h"

namespace binade::optim {

enum class ScheduleKind : std::uint8_t { kConstant, kLinear, kCosine, kPlateau };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 1e-3;         ///< learning rate after warm-up, the largest of the schedule
  double min_lr = 0;        ///< linear, cosine: final learning rate; plateau: smallest learning rate
  std::int64_t warmup = 0;  ///< number of updates in which the rate rises linearly from 0 to `lr`
  std::int64_t steps = 0;   ///< linear, cosine: number of the update that reaches min_lr, from 1
  double factor = 0.1;      ///< plateau: each drop multiplies the rate by it
  /// Plateau: the rate drops after more than this number of losses in a row that are no better
  std::int64_t patience = 10;
  double threshold = 1e-4;  ///< plateau: a loss is better if it is below the best by more than threshold |best|
};

/// Computes the learning rate of each update k (from 1). With W = warmup and N = steps:
///   k <= W: lr k / W;  then with f = (k - W) / (N - W), held at 1:
///   linear: lr + (min_lr - lr) f;   cosine: min_lr + (lr - min_lr)(1 + cos(pi f)) / 2;   constant, plateau: lr x
///   drops.
/// Plateau is PyTorch's ReduceLROnPlateau (mode min, relative threshold), except that it ignores losses that are not
/// finite. Only its rate depends on state, which observe() changes; the other kinds depend on k alone.
class Schedule {
 public:
  /// Throws ArgumentError with the name of an option that is out of range.
  explicit Schedule(const ScheduleOptions& options = {});

  static Schedule constant(double lr, std::int64_t warmup = 0);
  static Schedule linear(double lr, std::int64_t steps, double min_lr = 0, std::int64_t warmup = 0);
  static Schedule cosine(double lr, std::int64_t steps, double min_lr = 0, std::int64_t warmup = 0);
  static Schedule plateau(double lr, double factor = 0.1, std::int64_t patience = 10, double min_lr = 0);

  const ScheduleOptions& options() const { return options_; }
  /// Returns the learning rate of update `k`, from 1.
  double lr(std::int64_t k) const;
  /// Plateau: reads the loss of an evaluation and drops the rate if due. A loss that is not finite is ignored. Other
  /// kinds ignore every loss.
  void observe(double loss);

  /// Returns the kind, options().lr and the state of plateau: its rate, the best loss and the number of losses since
  /// then. Other options are not saved.
  StateDict state() const;
  /// Throws CheckpointError if `state` is not the state of a schedule.
  void check_state(const StateDict& state) const;
  /// Restores the state of plateau. If it was saved with another options().lr, its rate is scaled by the ratio of both.
  /// A state of another kind of schedule starts this schedule anew.
  void load_state(const StateDict& state);

 private:
  ScheduleOptions options_;
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
