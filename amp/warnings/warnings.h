#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "binade/amp/warnings/divergence.h"
#include "binade/amp/warnings/gradient_history.h"
#include "binade/amp/warnings/limits.h"
#include "binade/amp/warnings/silent_underflow.h"
#include "binade/amp/warnings/stagnation.h"
#include "binade/amp/warnings/warning.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/state_dict.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// Finds early warnings of numeric trouble in a run's committed steps: holds the detectors, and the promotions that
/// their warnings ask for. Warnings depend only on the run: the state is part of the checkpoint, and a resumed run
/// finds the same warnings. A decision from the telemetry of step k applies at step k + kTelemetryDelay.
///
/// A detector is a class with these members:
///
///     kSection                 name of its state in checkpoints
///     find(step, found)        takes a CommittedStep; appends the warnings that it shows to `found`
///     state(), load_state(s)   an empty state, as in a checkpoint older than the detector, starts over
class Warnings {
 public:
  /// What the telemetry of this step must record.
  Telemetry::Probes probes(std::int64_t step) const {
    const bool zeros = underflow().due(step), limits = std::get<OverflowAhead>(detectors_).due(step);
    return {.zeros = zeros, .limits = limits, .libraries = zeros || limits || step == 1};
  }
  /// By how much to raise the loss scale of an extra run of this step that would settle a doubt; nothing in nearly
  /// every step. The run's telemetry, with zeros counted, goes into `raised` of after_commit().
  std::optional<double> proof_factor(std::int64_t step) const { return underflow().proof_factor(step); }

  /// Whether the host must read tensors in this step, or make an extra run of it. Probes are made by the device.
  bool reads_tensors(std::int64_t step) const { return stagnation().due(step) || proof_factor(step); }
  void before_commit(std::int64_t step, optim::FlatParameters& parameters) {
    if (stagnation().due(step)) std::get<Stagnation>(detectors_).before_update(parameters);
  }
  std::vector<Warning> after_commit(const CommittedStep& step);

  /// Whether take_due() would give any.
  bool has_due(std::int64_t step) const {
    return std::ranges::any_of(planned_, [step](const Promotion& p) { return p.step <= step; });
  }
  /// Ops ("PATH/op") that are to be computed in f32 from this step on: what telemetry showed kTelemetryDelay steps ago.
  std::vector<std::string> take_due(std::int64_t step);

  /// Root mean square of the changes of an update; only in steps that sample it.
  std::optional<double> update_rms(std::int64_t step) const;

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  const SilentUnderflow& underflow() const { return std::get<SilentUnderflow>(detectors_); }
  const Stagnation& stagnation() const { return std::get<Stagnation>(detectors_); }

  struct Promotion {
    std::int64_t step{};
    std::string target{};
  };
  // In the order in which the warnings of a step are reported.
  std::tuple<Divergence, GradientHistory, OverflowAhead, SingularityAhead, CollapseAhead, SilentUnderflow, Stagnation>
      detectors_;
  std::vector<Promotion> planned_;
};

}  // namespace binade::amp
