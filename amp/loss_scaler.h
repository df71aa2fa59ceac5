#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/amp/loss_scale_options.h"
#include "binade/autograd/variable.h"
#include "binade/core/state_dict.h"
#include "binade/core/step_stats.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// A decision from the telemetry of step k applies at step k + 8, because 8 steps may be in flight (TrainerOptions).
inline constexpr std::int64_t kTelemetryDelay = 8;
/// Binades that LossScaleOptions::measured() leaves between the largest scaled gradient and overflow.
inline constexpr double kMeasuredHeadroom = 4;
/// Minimum headroom, in binades, after the scale has grown.
inline constexpr double kGrownHeadroom = 1;

/// Returns "dynamic", "off" or the number, as LossScaleOptions::parse() reads it.
std::string to_string(const LossScaleOptions& options);

/// Result of lowering the scale after an overflow.
enum class ScaleVerdict : std::uint8_t {
  kLowered,        ///< the step can be retried
  kNotAdjustable,  ///< the scale is static or off
  kAtFloor,        ///< the scale is LossScaleOptions::floor already
  kTooManyInARow,  ///< more overflows in a row than LossScaleOptions::aborts_in_a_row
  kTooOften,       ///< more overflows in a window than LossScaleOptions::aborts_per_window
};

/// Returns a clause for the report that says why the scale was not lowered; empty for kLowered.
std::string explain(ScaleVerdict verdict, const LossScaleOptions& options);

/// Holds and adjusts the loss scale. The scale is multiplied by growth_factor after growth_interval commits without
/// overflow, up to the ceiling, and by backoff_factor after an overflow, down to the floor. Growth that would leave
/// scaled gradients less than kGrownHeadroom is postponed by growth_interval commits. Each loss has its own scaler.
/// Scales are powers of two by default, so that scaling is exact.
class LossScaler {
 public:
  /// Throws ArgumentError naming the option that is out of range.
  explicit LossScaler(const LossScaleOptions& options = {});

  const LossScaleOptions& options() const { return options_; }
  double scale() const { return state_.scale; }
  bool adjustable() const { return options_.mode == LossScaleMode::kDynamic; }
  /// True if the scale is dynamic and above its floor.
  bool can_lower() const { return adjustable() && state_.scale > options_.floor; }
  /// True if the next `commits` commits leave the scale as it is.
  bool stays_for(std::int64_t commits) const {
    return !adjustable() || (state_.in_a_row == 0 && state_.clean + commits < options_.growth_interval);
  }

  /// Records a commit at the current scale. `headroom`: headroom of the scaled gradients in binades, not finite if
  /// unknown. It affects the scale only kTelemetryDelay commits later.
  void committed(double headroom = std::numeric_limits<double>::infinity());
  /// Records that the scaled gradients of a step overflowed. Lowers the scale, or returns why not.
  ScaleVerdict overflowed();

  /// Sets the scale at which the gradients have a headroom of kMeasuredHeadroom binades. `headroom`: their headroom in
  /// binades at the scale `scale`.
  void begin_with(double scale, double headroom);

  std::int64_t commits() const { return state_.commits; }
  std::int64_t overflows() const { return state_.overflows; }

  // ---- for loops without a Trainer --------------------------------------------------------------

  /// Options of step().
  struct StepOptions {
    double clip_norm = 0;  ///< largest norm of the gradients; 0: no clipping
    double lr = -1;        ///< learning rate; negative: the optimizer's own
  };
  /// Calls binade::backward with the scale as the initial gradient. Several calls before a step() accumulate. Throws
  /// NumericError, and changes nothing, for a loss that is not finite: the cause is in the forward pass or the data, so
  /// the scale is not lowered. The caller can skip the batch.
  void backward(const Variable& loss);
  /// Checks the gradients, updates all parameters or none, adjusts the scale and clears the gradients. Does not set the
  /// result's loss. Throws NumericError if gradients are not finite and a lower scale cannot help (any more).
  ///
  /// A NaN in the gradients of a finite loss may come from an overflow inside a fused backward, but only a replay of a
  /// Trainer can show this. Here each such call lowers the scale once; if the NaN persists at the floor, the scale is
  /// restored.
  ///
  /// Requires a backward() of this scaler since the previous step(). Pass optimizers that share a loss to one call,
  /// `step({&a, &b})`: their gradients are checked and clipped together, and all are updated or none. The lr in
  /// `options` applies to all; step and lr of the result are those of the first optimizer. Throws AutogradError without
  /// a backward(), ArgumentError for an empty list or an optimizer that is listed twice.
  StepStats step(std::span<optim::Optimizer* const> optimizers, const StepOptions& options);
  StepStats step(std::initializer_list<optim::Optimizer*> optimizers, const StepOptions& options) {
    return step(std::span(optimizers.begin(), optimizers.size()), options);
  }
  StepStats step(std::initializer_list<optim::Optimizer*> optimizers) { return step(optimizers, StepOptions{}); }
  StepStats step(optim::Optimizer& optimizer, const StepOptions& options) { return step({&optimizer}, options); }
  StepStats step(optim::Optimizer& optimizer) { return step({&optimizer}, StepOptions{}); }

  // ---- state ------------------------------------------------------------------------------------

  /// The numbers that a checkpoint stores.
  struct State {
    double scale = 65536;
    std::int64_t clean = 0;    ///< number of commits since the last change of the scale, or since growth was postponed
    std::int64_t commits = 0;  ///< total number of commits
    std::int64_t overflows = 0;  ///< total number of overflows
    std::int64_t in_a_row = 0;   ///< number of overflows since the last commit
    /// The value of `commits` at each overflow in the latest LossScaleOptions::window commits. Overflows before the
    /// first `window` commits are not listed.
    std::vector<std::int64_t> recent{};
    std::vector<double> waiting{};  ///< headroom of the latest kTelemetryDelay commits, not used yet
    std::vector<double> least{};  ///< at most one: the smallest headroom used since the last change or postponed growth
    friend bool operator==(const State&, const State&) = default;
  };
  /// Returns the complete state. restore() with an earlier state undoes overflowed(), if the scale turns out not to be
  /// the cause.
  const State& snapshot() const { return state_; }
  void restore(const State& state) { state_ = state; }

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved.
  void check_state(const StateDict& state) const { decode(state); }
  /// Loads a state. If the state was saved with another mode or another fixed scale than in the options, loads only its
  /// counts, and resets the scale.
  void load_state(const StateDict& state) { state_ = decode(state); }

 private:
  /// Records the headroom of a committed step. It affects the scale only kTelemetryDelay commits later.
  void note_headroom(double headroom);
  /// Sets the scale, and discards headroom that was measured at another scale.
  void set_scale(double scale);
  void update(std::span<optim::Optimizer* const> optimizers, std::span<const optim::GradientScan> scans,
              const StepOptions& options, const StepStats& stats);
  /// Lowers the scale after an overflow. Throws NumericError if that cannot help.
  void lower_for(const optim::GradientScan& scan, const StepStats& stats, const optim::FlatParameters& parameters);
  State decode(const StateDict& state) const;

  LossScaleOptions options_;
  State state_;
  std::optional<State> before_nan_;    // state before the first NaN since the last commit; only step() uses it
  std::optional<double> backward_at_;  // scale of the gradients that backward() computed and step() has not used yet
};

}  // namespace binade::amp
