#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/warnings/divergence.h"
#include "binade/amp/warnings/forecast.h"
#include "binade/amp/warnings/gradient_history.h"
#include "binade/amp/warnings/silent_underflow.h"
#include "binade/amp/warnings/stagnation.h"
#include "binade/amp/warnings/warning.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/state_dict.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// Finds early warnings of numeric trouble in the telemetry of a run's committed steps: overflow, a singularity or an
/// attention collapse ahead (Forecast), a loss far above the first (Divergence), gradients that their history does not
/// explain (GradientHistory), values that vanish (SilentUnderflow), updates that vanish (Stagnation). The warnings
/// depend only on the run: the state is part of the checkpoint, and a resumed run finds the same warnings. A decision
/// from the telemetry of step k applies at step k + kTelemetryDelay.
class Warnings {
 public:
  Warnings();

  /// What the telemetry of this step must record.
  Telemetry::Probes probes(std::int64_t step) const {
    const bool zeros = underflow_.due(step), limits = overflow_.due(step);
    return {.zeros = zeros, .limits = limits, .libraries = zeros || limits || step == 1};
  }
  /// By how much to raise the loss scale of an extra run of this step that would settle a doubt; nothing in nearly
  /// every step. The run's telemetry, with zeros counted, goes into `raised` of after_commit().
  std::optional<double> proof_factor(std::int64_t step) const { return underflow_.proof_factor(step); }

  /// Whether the host must read tensors in this step, or make an extra run of it. Probes are made by the device.
  bool reads_tensors(std::int64_t step) const { return stagnation_.due(step) || proof_factor(step); }
  void before_commit(std::int64_t step, optim::FlatParameters& parameters) {
    if (stagnation_.due(step)) stagnation_.before_update(parameters);
  }
  struct Committed {
    std::int64_t step{};
    const Telemetry& seen;      ///< of the attempt that was committed
    const Telemetry* raised{};  ///< of the extra run; null if there was none
    const optim::Optimizer& optimizer;
    const optim::StepInput& input;
    double loss = 0;
    double grad_norm{};  ///< before clipping
    double loss_scale{};
    double
        least_scale{};  ///< lowest scale that the loss scaler can reach: extra room for gradients beside their headroom
    bool stochastic{};  ///< 16-bit weights are rounded stochastically
    bool prevents{};    ///< compute ops in f32 before they leave a 16-bit range
  };
  std::vector<Warning> after_commit(const Committed& step);

  /// Whether take_due() would give any.
  bool has_due(std::int64_t step) const {
    return std::ranges::any_of(planned_, [step](const Promotion& p) { return p.step <= step; });
  }
  /// Ops ("PATH/op") that are to be computed in f32 from this step on: what telemetry showed kTelemetryDelay steps ago.
  std::vector<std::string> take_due(std::int64_t step);

  /// Root mean square of the changes of an update; only in steps that sample it.
  std::optional<double> update_rms(std::int64_t step) const;

  /// The largest product of queries and keys, where attention makes it in an op of its own (composed); nothing at most
  /// steps.
  std::optional<double> attention_logits(std::int64_t step, const Telemetry& seen) const;

  /// Of the attention that spreads least (see relative_entropy()); nothing at most steps.
  std::optional<double> attention_entropy(std::int64_t step, const Telemetry& seen) const;

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  void foresee_overflow(const Committed& step, std::vector<Warning>& warnings);
  void foresee_poles(const Committed& step, std::vector<Warning>& warnings);
  void foresee_collapse(const Committed& step, std::vector<Warning>& warnings);
  void judge_loss(const Committed& step, std::vector<Warning>& warnings);
  void judge_gradients(const Committed& step, std::vector<Warning>& warnings);
  void plan_promotion(Warning& warning);

  struct Promotion {
    std::int64_t step{};
    std::string target{};
  };
  Forecast overflow_, singularities_, collapse_;
  Divergence divergence_;
  GradientHistory gradients_;
  SilentUnderflow underflow_;
  Stagnation stagnation_;
  std::vector<Promotion> planned_;
};

}  // namespace binade::amp
