#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/incident/first_bad.h"
#include "binade/amp/verdict.h"
#include "binade/core/precision.h"

namespace binade::amp {

/// The step once more with one thing changed.
struct Variant {
  std::string name = "same";
  std::vector<PrecisionPolicy::Override> promote{};  ///< added to the policy
  std::optional<double> scale{};                     ///< instead of the loss scale
  std::vector<std::int64_t> without{};               ///< rows that are left out, see Experiments::rows
  bool earlier_weights = false;                      ///< those of the newest good checkpoint
};
/// What can be done to a failed step.
struct Experiments {
  /// Runs the step again under a variant, watched by `observer` where there is one, and leaves no trace of it.
  std::function<Attempt(const Variant&, TapeObserver* observer)> run{};
  std::int64_t batch = 0;            ///< rows of a micro-batch; 0: not known, or not the same in all
  std::int64_t stride = 0;           ///< row r of micro-batch m is number m * stride + r
  std::vector<std::int64_t> rows{};  ///< those that Variant::without can name; none: it does not work
  bool earlier_weights = false;      ///< Variant::earlier_weights works
  /// What is wrong with the state that the step began from; what is known of its gradients. Asked where no op is to
  /// blame, or the update is.
  std::function<std::optional<FirstBad>()> damage = nothing, bad_gradient = nothing;
  static std::optional<FirstBad> nothing() { return std::nullopt; }
};

/// Finds out where and why: replays the failed step under watch, then with one thing changed at a time. The cause is
/// the smallest change that makes the step finite; where lowering the scale and raising a guard both do, it is the
/// pole if an operand lay there. At most 30 replays; `failed` is what the attempt found.
Diagnosis diagnose(const Attempt& failed, const Experiments& experiments);

}  // namespace binade::amp
