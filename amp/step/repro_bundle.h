#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/amp/step/plan.h"
#include "binade/amp/step/step_result.h"

// A repro bundle contains all data that is needed to run a failed attempt again on another machine. Its file is
// capsule.h5. Its entries are the state before the step, the contents "batch/N" of each micro-batch, and the settings
// and results of the attempt, "capsule/…".
namespace binade::amp {

class AttemptRunner;
class Remedies;
class Transaction;

/// Makes the bundle of attempt `number`. `contents`: StepFeed::contents, for every micro-batch of the step.
StateDict make_repro_bundle(StateDict state, const Attempt& attempt, const OngoingStep& ongoing, std::int64_t number,
                            const std::function<StateDict(int micro_batch)>& contents);

/// Throws CheckpointError if `bundle` is no repro bundle, one of another version, or one of a run with other settings.
/// `changes_since`: Transaction::changes_since().
void check_repro_bundle(const StateDict& bundle,
                        const std::function<std::vector<std::string>(const StateDict& state)>& changes_since);
/// Returns the contents of the micro-batches. Throws CheckpointError.
std::vector<StateDict> micro_batches_of(const StateDict& bundle);
/// Runs the failed attempt again, in the state that the bundle holds, and diagnoses it. `ongoing` has the micro-batches
/// of the bundle. Throws CheckpointError.
ReproReplay replay_bundle(const StateDict& bundle, OngoingStep& ongoing, const Transaction& transaction,
                          AttemptRunner& runner, Remedies& remedies);

}  // namespace binade::amp
