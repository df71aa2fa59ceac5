#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "binade/amp/warnings/divergence.h"
#include "binade/amp/warnings/evaluation_mismatch.h"
#include "binade/amp/warnings/gradient_history.h"
#include "binade/amp/warnings/limits.h"
#include "binade/amp/warnings/silent_underflow.h"
#include "binade/amp/warnings/stagnation.h"
#include "binade/amp/warnings/swallowed_overflow.h"
#include "binade/amp/warnings/untrained_parameters.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Finds early warnings in a run's committed steps. Holds the detectors, and the promotions that their warnings plan.
/// All state is part of the checkpoint, so that a resumed run finds the same warnings. A decision from the telemetry of
/// step k applies at step k + kTelemetryDelay.
///
/// A detector is a class with these members:
///
///     kSection                 name of its state in checkpoints
///     find(step, found)        takes a CommittedStep; appends the warnings that it shows to `found`
///     state(), load_state(s)   an empty state, as in a checkpoint older than the detector, starts over
class Warnings {
 public:
  /// Returns the probes that the telemetry of this step must take.
  Telemetry::Probes probes(std::int64_t step) const {
    const bool zeros = underflow().due(step), limits = std::get<OverflowAhead>(detectors_).due(step);
    return {.zeros = zeros, .limits = limits, .libraries = zeros || limits || step == 1};
  }
  /// Returns SilentUnderflow::confirmation_factor(), which is std::nullopt in nearly every step. Pass the telemetry of
  /// the extra run as CommittedStep::raised.
  std::optional<double> confirmation_factor(std::int64_t step) const { return underflow().confirmation_factor(step); }

  /// True if the host must read tensors in this step, or run the step once more. A captured step can do neither, so the
  /// step must run eagerly. Probes do not count, because they run on the device.
  bool reads_tensors(std::int64_t step) const {
    return stagnation().due(step) || std::get<EvaluationMismatch>(detectors_).due(step) || confirmation_factor(step);
  }
  /// Call it before each update of the step.
  void before_update(std::int64_t step, optim::Optimizer& optimizer, const optim::StepInput& input) {
    if (stagnation().due(step)) std::get<Stagnation>(detectors_).before_update(optimizer, input);
  }
  /// Drops what before_update() sampled, because the updates are undone.
  void discard_samples() { std::get<Stagnation>(detectors_).discard_samples(); }
  void before_commit(std::int64_t step, nn::Module& model) {
    if (auto& mismatch = std::get<EvaluationMismatch>(detectors_); mismatch.due(step)) mismatch.before_commit(model);
  }
  std::vector<Warning> after_commit(const CommittedStep& step);
  /// True if the loss of the last committed step was far above the run's first loss.
  bool has_diverged() const { return std::get<Divergence>(detectors_).is_high(); }

  /// True if take_due_promotions() would return an op.
  bool has_due_promotion(std::int64_t step) const {
    return std::ranges::any_of(planned_, [step](const Promotion& p) { return p.step <= step; });
  }
  /// Removes and returns the ops ("PATH/op") to compute in f32 from `step` on, as decided kTelemetryDelay steps ago.
  std::vector<std::string> take_due_promotions(std::int64_t step);

  /// Returns the root mean square of the changes of the sampled weights; std::nullopt if this step samples no weights.
  std::optional<double> update_rms(std::int64_t step) const;

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  const SilentUnderflow& underflow() const { return std::get<SilentUnderflow>(detectors_); }
  const Stagnation& stagnation() const { return std::get<Stagnation>(detectors_); }

  struct Promotion {
    std::int64_t step{};   // first step of the promotion
    std::string target{};  // "PATH/op"
  };
  // The warnings of a step are reported in this order.
  std::tuple<Divergence, GradientHistory, OverflowAhead, SingularityAhead, CollapseAhead, SwallowedOverflow,
             UntrainedParameters, EvaluationMismatch, SilentUnderflow, Stagnation>
      detectors_;
  std::vector<Promotion> planned_;
};

}  // namespace binade::amp
