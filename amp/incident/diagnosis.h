#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/incident/first_bad.h"
#include "binade/amp/verdict.h"
#include "binade/core/precision.h"
#include "binade/nn/module.h"

namespace binade::amp {

/// A change with which the step is replayed.
struct Variant {
  std::string name = "same";
  std::vector<PrecisionPolicy::Override> promote{};  ///< overrides to add to the policy
  std::optional<double> scale{};                     ///< replaces the loss scale
  std::vector<std::int64_t> without{};               ///< rows to leave out: a subset of Experiments::rows
  bool earlier_weights = false;                      ///< uses the weights of the newest good checkpoint
};
/// The replays that are possible for a failed step.
struct Experiments {
  /// Replays the step with a change and rolls it back. `observer` may be null.
  std::function<Attempt(const Variant&, TapeObserver* observer)> run{};
  std::int64_t batch = 0;            ///< rows of a micro-batch; 0: unknown, or not the same in all
  std::int64_t stride = 0;           ///< row r of micro-batch m has the number m * stride + r in `rows`
  std::vector<std::int64_t> rows{};  ///< rows that can be left out; empty if none can
  bool earlier_weights = false;      ///< true if Variant::earlier_weights is possible
  bool is_mixed = false;             ///< true if some ops compute in 16 bits
  bool on_gpu = false;               ///< true if the step runs on a GPU, where libraries may compute ops
  bool has_diverged = false;         ///< true if the last committed loss was far above the run's first one
  /// `damage` finds damage in the state before the step (find_damage()); it is called if there is no first bad op, or
  /// if the update was not finite. `bad_gradient` finds a non-finite gradient (find_bad_gradient()); it is called if no
  /// other place is found.
  std::function<std::optional<FirstBad>()> damage = none, bad_gradient = none;
  static std::optional<FirstBad> none() { return std::nullopt; }
  /// Finds the buffer, if the bad input of an op is a buffer and not a part of the batch (find_bad_buffer()).
  std::function<std::optional<FirstBad>(const FirstBad& input)> bad_buffer = [](const FirstBad&) { return none(); };
};

/// Finds the first bad op and the cause of a failed attempt by at most 12 replays: first one with an observer, then
/// replays with one change each. Compares the outcomes, and the op's result in f64, with the predictions of each
/// hypothesis (hypotheses.h).
Diagnosis diagnose(const Attempt& failed, const Experiments& experiments);

/// Diagnoses an evaluation with a non-finite result. `what`: description of the result; `search`: an observer that has
/// seen a repetition of the evaluation; `averaged`: true if the evaluation used averaged weights.
Incident diagnose_evaluation(std::int64_t step, const std::string& what, const FirstBadSearch& search,
                             nn::Module& model, bool averaged);

}  // namespace binade::amp
