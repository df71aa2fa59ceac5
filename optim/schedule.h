#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "binade/core/state_dict.h"

namespace binade::optim {

enum class ScheduleKind : std::uint8_t { kConstant, kLinear, kCosine, kPlateau };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 1e-3;            ///< peak
  double min_lr = 0;           ///< where linear and cosine end and stay; the floor of plateau
  std::int64_t warmup = 0;     ///< updates of linear warm-up
  std::int64_t steps = 0;      ///< linear, cosine: the update that reaches min_lr
  double factor = 0.1;         ///< plateau: each drop
  std::int64_t patience = 10;  ///< plateau: observations without a better one before a drop
  double threshold = 1e-4;     ///< plateau: better means lower by more than threshold x |best|
};

/// The learning rate of every update, as a value with state. With W = warmup, N = steps, for update k from 1:
///   k <= W: lr k / W;  then with f = (k - W) / (N - W), held at 1:
///   linear: lr + (min_lr - lr) f;   cosine: min_lr + (lr - min_lr)(1 + cos(pi f)) / 2;   constant, plateau: lr x
///   drops.
/// Plateau follows PyTorch's ReduceLROnPlateau (mode min, relative threshold), but for losses that are not finite: they
/// do not count. It moves by observe() alone, so that constant, linear and cosine are functions of k.
class Schedule {
 public:
  /// Throws ArgumentError naming the option that is out of range.
  explicit Schedule(const ScheduleOptions& options = {});

  static Schedule constant(double lr, std::int64_t warmup = 0);
  static Schedule linear(double lr, std::int64_t steps, double min_lr = 0, std::int64_t warmup = 0);
  static Schedule cosine(double lr, std::int64_t steps, double min_lr = 0, std::int64_t warmup = 0);
  static Schedule plateau(double lr, double factor = 0.1, std::int64_t patience = 10, double min_lr = 0);

  const ScheduleOptions& options() const { return options_; }
  /// Of update `k`, from 1.
  double lr(std::int64_t k) const;
  /// Plateau: takes an evaluation's loss; one that is not finite does not count. Other kinds ignore it.
  void observe(double loss);

  /// Kind and peak, plateau's rate, best and count of bad observations; the options are the run's settings, not state.
  StateDict state() const;
  /// Throws CheckpointError when it is not the state of a schedule.
  void check_state(const StateDict& state) const;
  /// A state of another kind is ignored. A plateau state with another peak has its rate scaled by the ratio of the
  /// peaks.
  void load_state(const StateDict& state);

 private:
  ScheduleOptions options_;
  double plateau_lr_;
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t bad_ = 0;
};

/// Of every kind, in the order of ScheduleKind.
std::span<const std::string_view> schedule_names();
std::string_view name_of(ScheduleKind kind);
/// "constant", "linear", "cosine", "plateau". Throws ArgumentError listing them.
ScheduleKind schedule_kind(std::string_view name);

}  // namespace binade::optim
