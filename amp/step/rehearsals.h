#pragma once

#include <optional>

#include "binade/amp/step/plan.h"
#include "binade/amp/step/step_result.h"

/// Runs of a step that are never committed: to measure the loss scale, to confirm a warning, to replay an attempt.
namespace binade::amp {

class AttemptRunner;
class Remedies;
class Transaction;

/// Returns the settings of the first attempt at the step that comes `ahead` steps after the next one.
Attempt attempt_ahead(const Transaction& transaction, const StepFeed& feed, std::int64_t ahead);

/// Runs the step, and sets the initial loss scale from the headroom of its gradients. Overwrites `telemetry`.
void measure_scale(Transaction& transaction, AttemptRunner& runner, const OngoingStep& ongoing, Telemetry& telemetry);

/// Returns the telemetry of an extra run at a higher loss scale, if a warning needs one in this step.
std::optional<Telemetry> confirm_warnings(const Transaction& transaction, AttemptRunner& runner,
                                          const OngoingStep& ongoing);

/// Throws CheckpointError if `bundle` is no repro bundle, or if the run that wrote it had other settings.
void check_settings(const Transaction& transaction, const StateDict& bundle);
/// Runs the attempt of a repro bundle again and diagnoses it. The state of the bundle must be loaded.
ReproReplay replay_attempt(Transaction& transaction, AttemptRunner& runner, Remedies& remedies, const StateDict& bundle,
                           OngoingStep ongoing);

}  // namespace binade::amp
