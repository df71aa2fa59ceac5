#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/loss_scale_options.h"
#include "binade/amp/policy.h"
#include "binade/core/state_dict.h"
#include "binade/optim/ema_options.h"
#include "binade/optim/schedule.h"

namespace binade::amp {

/// What an incident leads to.
enum class OnNan : std::uint8_t {
  kRemedy,  ///< the cheapest remedy that a replay shows to work
  kSkip,    ///< the next batch
  kStop,    ///< a NumericError
  kLadder [[deprecated("use kRemedy")]] = kRemedy,
};

/// Bounds on what remedies may do to a run.
struct RemediationOptions {
  std::int64_t promoted_steps = 1000;  ///< for which an op stays in f32; doubled each time it is needed again
  std::int64_t skips = 5;              ///< batches skipped within one step
  std::int64_t incidents = 16;         ///< within one step
  std::int64_t rollbacks = 3;          ///< within `window` steps
  std::int64_t window = 1000;
  double lr_cut = 0.5;              ///< factor on the learning rate after a rollback that data or updates caused
  std::int64_t lr_cut_steps = 200;  ///< for which it lasts
};
using LadderOptions [[deprecated("use RemediationOptions")]] = RemediationOptions;

struct TrainerOptions {
  Policy precision = Policy::fp32();
  std::optional<LossScaleOptions> loss_scale{};  ///< left out: dynamic or off, as the policy says
  std::optional<optim::Schedule> schedule{};     ///< left out: the optimizer's lr
  double clip_norm = 0;                          ///< > 0: gradients of a larger norm are scaled down to it
  double clip_value = 0;                         ///< > 0: each gradient is clamped to [-clip_value, clip_value]
  double clip_adaptive = 0;  ///< > 0: each unit's gradient is at most this times its weights (optim/clip.h)
  std::optional<optim::EmaOptions> ema{};
  std::int64_t accumulate = 1;  ///< batches per step that batches() reads
  std::int64_t steps = 0;       ///< batches() ends after this many committed updates; 0: never
  bool state_hash = false;
  bool telemetry = true;  ///< watch every step (headroom); off: only to measure its cost
  OnNan on_nan = OnNan::kRemedy;
  RemediationOptions remediation{};
  std::vector<std::string> inject{};  ///< faults to plant, see amp/incident/fault_injection.h
  /// On a GPU: run ordinary steps as one captured graph each (amp/step/recorder.h). For closures that run the same ops
  /// at every step and read nothing that changes except their batch and the model: they are called when a step is
  /// captured, not at every step. Batches need state(), from_state() and to(), as io's have.
  bool record = false;
  /// With `record`: captured steps that may be in flight when step() returns, at most 8. The result of such a step says
  /// `in_flight`. Closures are copied, and may be called after step() returned: what they refer to must live as long as
  /// the trainer. A step that does not commit costs the device the steps submitted behind it; they run again.
  std::int64_t ahead = 0;
};

/// A checkpoint that a run may go back to.
struct RecoveryPoint {
  std::int64_t step = 0;
  std::string name{};
  StateDict state{};
};
/// Finds the best checkpoint of a step in (after, newest]; nothing if there is none.
using FindRecoveryPoint = std::function<std::optional<RecoveryPoint>(std::int64_t newest, std::int64_t after)>;

/// Receives the repro bundle of an incident in `step`, `attempt` (amp/step/repro_bundle.h).
using ReproSink = std::function<void(std::int64_t step, std::int64_t attempt, StateDict bundle)>;
using CapsuleSink [[deprecated("use ReproSink")]] = ReproSink;

}  // namespace binade::amp
