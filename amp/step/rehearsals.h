#pragma once

#include <optional>

#include "binade/amp/step/plan.h"
#include "binade/amp/step/step_result.h"

/// Runs of a step that are not committed, for what they show.
namespace binade::amp {

class AttemptRunner;
class Remedies;
class Transaction;

/// Returns the settings of the first attempt at the step that comes `ahead` steps after the next one.
Attempt attempt_ahead(const Transaction& transaction, const StepFeed& feed, std::int64_t ahead);

/// Sets the initial loss scale from the headroom of a backward. Overwrites `telemetry`.
void measure_scale(Transaction& transaction, AttemptRunner& runner, const OngoingStep& ongoing, Telemetry& telemetry);

/// Returns the telemetry of an extra run at a higher loss scale, if a warning needs one in this step.
std::optional<Telemetry> confirm_warnings(const Transaction& transaction, AttemptRunner& runner,
                                          const OngoingStep& ongoing);

/// Throws CheckpointError if `bundle` is no repro bundle, or if the run that wrote it had other settings.
void check_settings(const Transaction& transaction, const StateDict& bundle);
/// Runs the attempt of a repro bundle again, whose state is loaded, and diagnoses it.
ReproReplay replay_attempt(Transaction& transaction, AttemptRunner& runner, Remedies& remedies, const StateDict& bundle,
                           OngoingStep ongoing);

}  // namespace binade::amp
