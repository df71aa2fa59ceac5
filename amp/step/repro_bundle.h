#pragma once

#include <cstdint>
#include <vector>

#include "binade/amp/step/plan.h"

// A repro bundle contains all data that is needed to run a failed attempt again on another machine. Its file is
// capsule.h5. Its entries are the state before the step, the contents "batch/N" of each micro-batch, and the settings
// and results of the attempt, "capsule/…".
namespace binade::amp {

/// Makes the bundle of attempt `number`. REQUIRES a feed with contents.
StateDict make_repro_bundle(StateDict state, const Attempt& attempt, const OngoingStep& ongoing, std::int64_t number);

/// Throws CheckpointError if `bundle` is no repro bundle, or one of another version.
void check_repro_bundle(const StateDict& bundle);
/// Returns the contents of the micro-batches. Throws CheckpointError.
std::vector<StateDict> micro_batches_of(const StateDict& bundle);
/// Sets the plan of `ongoing` to that of the failed attempt. Throws CheckpointError.
void read_plan(const StateDict& bundle, OngoingStep& ongoing);
/// Returns the number of the failed attempt at its step.
std::int64_t attempt_number_of(const StateDict& bundle);
/// True if `attempt` has the recorded result, bit for bit.
bool same_bits(const Attempt& attempt, const StateDict& bundle);

}  // namespace binade::amp
