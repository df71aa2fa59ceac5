#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/loss_scale_options.h"
#include "binade/amp/policy.h"
#include "binade/core/state_dict.h"
#include "binade/optim/ema_options.h"
#include "binade/optim/schedule.h"

namespace binade {
class Communicator;
}

namespace binade::amp {

/// How training continues after an incident.
enum class OnNan : std::uint8_t {
  kRemedy,  ///< applies the cheapest remedy that a replay shows to work
  kSkip,    ///< skips the batch
  kStop,    ///< throws a NumericError
  kLadder [[deprecated("use kRemedy")]] = kRemedy,
};

/// Maximum numbers and durations of the remedies.
struct RemediationOptions {
  std::int64_t promoted_steps = 1000;  ///< steps of a promotion to f32; doubled each time that it is needed again
  std::int64_t skips = 5;              ///< maximum number of batches skipped within one step
  std::int64_t incidents = 16;         ///< maximum number of incidents within one step that get a remedy
  std::int64_t rollbacks = 3;          ///< maximum number of rollbacks within `window` steps
  std::int64_t window = 1000;          ///< number of steps to which `rollbacks` refers
  double lr_cut = 0.5;                 ///< factor on the learning rate after a rollback caused by data or updates
  std::int64_t lr_cut_steps = 200;     ///< number of steps with the lower learning rate
};
using LadderOptions [[deprecated("use RemediationOptions")]] = RemediationOptions;

/// Settings of a Trainer.
struct TrainerOptions {
  Policy precision = Policy::fp32();
  std::optional<LossScaleOptions> loss_scale{};  ///< default: dynamic or off, depending on the policy
  std::optional<optim::Schedule> schedule{};     ///< default: the optimizer's learning rate
  double clip_norm = 0;                          ///< if > 0: upper bound of the gradient norm
  double clip_value = 0;                         ///< if > 0: upper bound of the magnitude of each gradient element
  double clip_adaptive = 0;  ///< if > 0: upper bound of gradient norm / weight norm for each unit (optim/clip.h)
  std::optional<optim::EmaOptions> ema{};  ///< averages of the weights; default: none
  std::int64_t accumulate = 1;             ///< micro-batches per step of batches(), of all ranks together
  /// The ranks that make the steps together (docs/ranks.md); null: this process alone. Each rank computes a part of the
  /// micro-batches of a step. All ranks then have the same weights, to the bit.
  std::shared_ptr<Communicator> ranks{};
  /// Number of leaves: runs of micro-batches whose gradients are added in a binary tree (core/rank_tree.h); at most the
  /// number of micro-batches. The bits of a step depend on it, not on the number of ranks. 0: that of the loaded state,
  /// or else 1 (gradients are added one after the other) on a single rank and `accumulate` on several.
  std::int64_t leaves = 0;
  std::int64_t steps = 0;   ///< number of committed updates after which batches() ends; 0: never
  bool state_hash = false;  ///< computes the state hash before and after each step
  bool telemetry = true;    ///< records magnitudes in every step; turn off only to measure its cost
  /// If > 0: in every step whose number is a multiple of it, the first micro-batch is computed twice, and the bits of
  /// every op's results are compared, to find silent corruption by the hardware (docs/silent-corruption.md). A step
  /// whose bits differ is not committed, but computed again.
  std::int64_t verify_every = 0;
  OnNan on_nan = OnNan::kRemedy;
  RemediationOptions remediation{};
  std::vector<std::string> inject{};  ///< faults to inject (amp/incident/fault_injection.h)
  /// Runs ordinary steps on a GPU as captured graphs (amp/step/step_graphs.h). The closure is called when a step is
  /// captured, not in every step: it must run the same ops in every step, and read no changing state except its batch
  /// and the model. Batches need state(), from_state() and to(), as those of io/ have.
  bool record = false;
  /// With `record`: number of captured steps, at most 8, that may be in flight when step() returns. The result of such
  /// a step has `in_flight` set. Closures are copied and may be called after step() returned: objects that they refer
  /// to must outlive the trainer. If a step does not commit, the steps submitted after it run again.
  std::int64_t ahead = 0;
};

/// Returns the options. Throws ArgumentError if some are out of range or exclude each other.
TrainerOptions checked(TrainerOptions options);

/// A checkpoint that a rollback may return to.
struct RecoveryPoint {
  std::int64_t step = 0;
  std::string name{};  ///< file name
  StateDict state{};
};
/// Finds the best checkpoint for a rollback whose step is in (after, newest]; std::nullopt if there is none.
using FindRecoveryPoint = std::function<std::optional<RecoveryPoint>(std::int64_t newest, std::int64_t after)>;

/// Receives the repro bundle of a failed attempt (amp/step/repro_bundle.h).
using ReproSink = std::function<void(std::int64_t step, std::int64_t attempt, StateDict bundle)>;
using CapsuleSink [[deprecated("use ReproSink")]] = ReproSink;

}  // namespace binade::amp
