#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/amp/incident/first_bad.h"
#include "binade/amp/verdict.h"
#include "binade/core/precision.h"

namespace binade::amp {

/// Why a step went wrong. "Not proven" is an honest answer; a confident wrong one is the worst there is.
enum class CauseClass : std::uint8_t {
  kLossScaleOverflow,       ///< gradients fit at a lower loss scale
  kGradientExplosion,       ///< gradients or the update are too large whatever the scale
  kActivationOverflow,      ///< a result is beyond the range of its 16-bit dtype
  kAttentionLogitOverflow,  ///< the same, of query times key
  kFullyMaskedRow,          ///< a softmax over nothing
  kNormalizationPole,       ///< a norm divided by a spread of 0
  kArithmeticPole,          ///< log, division, sqrt or pow at its pole
  kLossFunctionPole,        ///< the same inside a loss
  kOptimizerUnderflow,      ///< a denominator of the update became 0
  kBadInput,                ///< the batch holds something that is not finite
  kCorruptedState,          ///< a weight or a buffer was not finite before the step began
  kReductionOverflow,       ///< a sum is beyond the range of its dtype
  kSilentUnderflow,         ///< values vanish to 0
  kNotReproducible,         ///< the same step gave other bits: a race, or the hardware
  kNotProven,
};
std::string_view name_of(CauseClass cause);

enum class Confidence : std::uint8_t { kProven, kLikely, kNotProven };
std::string_view name_of(Confidence confidence);

/// The step once more with one thing changed.
struct Variant {
  std::string name = "same";
  std::vector<PrecisionPolicy::Override> promote{};  ///< added to the policy
  std::optional<double> scale{};                     ///< instead of the loss scale
  std::vector<std::int64_t> without{};               ///< rows that are left out, see Experiments::rows
  bool earlier_weights = false;                      ///< those of the newest good checkpoint
};
struct Proof {
  std::string variant{};
  bool finite = false;
};

/// What can be done to a failed step.
struct Experiments {
  /// Runs the step again under a variant, watched by `observer` where there is one, and leaves no trace of it.
  std::function<StepState(const Variant&, TapeObserver* observer)> run{};
  std::int64_t batch = 0;            ///< rows of a micro-batch; 0: not known, or not the same in all
  std::int64_t stride = 0;           ///< row r of micro-batch m is number m * stride + r
  std::vector<std::int64_t> rows{};  ///< those that Variant::without can name; none: it does not work
  bool earlier_weights = false;      ///< Variant::earlier_weights works
  /// What is wrong with the state that the step began from; what is known of its gradients. Asked where no op is to
  /// blame, or the update is.
  std::function<std::optional<FirstBad>()> damage = nothing, bad_gradient = nothing;
  static std::optional<FirstBad> nothing() { return std::nullopt; }
};

struct Diagnosis {
  std::optional<FirstBad> first_bad{};
  CauseClass cause = CauseClass::kNotProven;
  Confidence confidence = Confidence::kNotProven;
  std::vector<Proof> proof{};
  std::string advice{};  ///< what to change, for the person who wrote the model
  int replays = 0;       ///< number of replays that the diagnosis needed
  bool reproducible = true;

  // Changes that made the step finite, for whoever chooses a remedy.
  std::vector<std::string> promote{};   ///< compute these ops in f32, all of them together; named as in overrides
  std::vector<std::int64_t> samples{};  ///< without these rows
  bool earlier_weights = false;         ///< with the weights of the newest good checkpoint
};

/// Finds out where and why: replays the failed step under watch, then with one thing changed at a time. The cause is
/// the smallest change that makes the step finite; where lowering the scale and raising a guard both do, it is the
/// pole if an operand lay there. At most 30 replays; `failed` is what the attempt found.
Diagnosis diagnose(const StepState& failed, const Experiments& experiments);

/// What to change, for the person who wrote the model.
std::string advise(const Diagnosis& diagnosis);

}  // namespace binade::amp
