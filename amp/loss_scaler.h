#pragma once

#include <array>
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

/// A decision from the telemetry of step k applies at step k + 8: a device may run that far ahead of the host.
inline constexpr std::int64_t kTelemetryDelay = 8;
/// Binades that LossScaleOptions::measured() leaves above the largest scaled gradient.
inline constexpr double kMeasuredHeadroom = 4;
/// Binades that must be left after the scale has grown.
inline constexpr double kGrownHeadroom = 1;

/// "dynamic", "off" or the number: what parse() takes.
std::string to_string(const LossScaleOptions& options);

/// What an abort led to.
enum class ScaleVerdict : std::uint8_t {
  kLowered,        ///< the step may be tried again
  kNotAdjustable,  ///< static or off: the scale explains nothing
  kAtFloor,        ///< cannot go lower
  kTooManyInARow,
  kTooOften,
};

/// A sentence for the report; empty for kLowered.
std::string explain(ScaleVerdict verdict, const LossScaleOptions& options);

/// The loss scale as a state machine: x growth_factor after growth_interval clean commits (never beyond the ceiling), x
/// backoff_factor on overflow, never below the floor. If the headroom of scaled gradients is measured, growth is
/// postponed by an interval unless a binade would be left after it. One scale per loss. All scales are plain doubles;
/// powers of two by default, so that scaling is exact.
class LossScaler {
 public:
  /// Throws ArgumentError naming the option that is out of range.
  explicit LossScaler(const LossScaleOptions& options = {});

  const LossScaleOptions& options() const { return options_; }
  double scale() const { return state_.scale; }
  bool adjustable() const { return options_.mode == LossScaleMode::kDynamic; }
  /// Whether an overflow now could be explained by the scale.
  bool can_lower() const { return adjustable() && state_.scale > options_.floor; }
  /// Whether the scale stays what it is through the next `commits` steps if they are committed, whatever they measure.
  bool stays_for(std::int64_t commits) const {
    return !adjustable() || (state_.in_a_row == 0 && state_.clean + commits < options_.growth_interval);
  }

  /// A step was committed with this scale. `headroom`: binades that its scaled gradients left; not finite where that is
  /// not known. What a step measured counts kTelemetryDelay commits later.
  void committed(double headroom = std::numeric_limits<double>::infinity());
  /// A step was aborted because scaled gradients overflowed: lowers the scale, or says why that is no way out (and then
  /// leaves it as it is).
  ScaleVerdict overflowed();

  /// The scale to begin with, given that gradients left `headroom` binades at `scale`.
  void begin_with(double scale, double headroom);

  std::int64_t commits() const { return state_.commits; }
  std::int64_t overflows() const { return state_.overflows; }

  // ---- for loops without a Trainer --------------------------------------------------------------

  struct StepOptions {
    double clip_norm = 0;  ///< 0: none
    double lr = -1;        ///< below 0: the optimizer's own
  };
  /// binade::backward with the scale as seed. Throws NumericError for a loss that is not finite: forward or the data
  /// caused it, so the loss scale is not lowered. Nothing has changed then; the caller can skip the batch. Several
  /// calls before a step() accumulate their gradients.
  void backward(const Variable& loss);
  /// Judges the gradients, updates all parameters or none, adjusts the scale and clears the gradients. The result's
  /// loss is not filled. Throws NumericError when gradients are not finite and the scale cannot explain it (any more).
  ///
  /// A NaN in gradients of a finite loss may be an overflow inside a fused backward. Only a Trainer's replay can decide
  /// that. Here the scale is lowered step by step, and restored if the NaN is still there at the floor.
  ///
  /// Every step() requires a backward() of this scaler since the previous step(), which cleared the gradients of its
  /// optimizers and may have changed the scale. Optimizers that share a loss go into one call, `step({&a, &b})`: all
  /// gradients are judged and clipped as one, and all optimizers are updated or none. The lr in `options` applies to
  /// all; the result's step and lr are those of the first. Throws AutogradError without a backward(), ArgumentError for
  /// an empty list or an optimizer that is given twice.
  StepStats step(std::span<optim::Optimizer* const> optimizers, const StepOptions& options);
  StepStats step(std::initializer_list<optim::Optimizer*> optimizers, const StepOptions& options) {
    return step(std::span(optimizers.begin(), optimizers.size()), options);
  }
  StepStats step(std::initializer_list<optim::Optimizer*> optimizers) { return step(optimizers, StepOptions{}); }
  StepStats step(optim::Optimizer& optimizer, const StepOptions& options) { return step({&optimizer}, options); }
  StepStats step(optim::Optimizer& optimizer) { return step({&optimizer}, StepOptions{}); }

  // ---- state ------------------------------------------------------------------------------------

  struct State {
    double scale = 65536;
    std::int64_t clean = 0;  ///< commits since the last change of scale
    std::int64_t commits = 0;
    std::int64_t overflows = 0;  ///< in all
    std::int64_t in_a_row = 0;
    std::vector<std::int64_t> recent{};  ///< commits at the latest overflows after the first window
    std::vector<double> waiting{};       ///< headroom of the latest commits, which does not count yet
    std::vector<double> least{};         ///< the least of those before, since the scale changed; empty: none
    friend bool operator==(const State&, const State&) = default;
  };
  /// For a trainer that takes an overflow back when it proves to be none.
  const State& snapshot() const { return state_; }
  void restore(const State& state) { state_ = state; }

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind.
  void check_state(const StateDict& state) const { decode(state); }
  /// If the state has another mode or another fixed scale, only its counts are loaded, and the scale starts as the
  /// options say.
  void load_state(const StateDict& state) { state_ = decode(state); }

 private:
  void note_headroom(double headroom);
  void set_scale(double scale);
  void update(std::span<optim::Optimizer* const> optimizers, std::span<const optim::GradientScan> scans,
              const StepOptions& options, const StepStats& stats);
  void lower_for(const optim::GradientScan& scan, const StepStats& stats, const optim::FlatParameters& parameters);
  State decode(const StateDict& state) const;

  LossScaleOptions options_;
  State state_;
  std::optional<State> before_nan_;    // of step(), since the last commit
  std::optional<double> backward_at_;  // the scale of the pending gradients, until step()
};

}  // namespace binade::amp
