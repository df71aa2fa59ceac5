#pragma once

#include <cstdint>
#include <vector>

#include "binade/amp/step/plan.h"

// A repro bundle: all that is needed to run a failed attempt again elsewhere. Its file is capsule.h5, its entries are
// the state that the step began with, "batch/N" for each micro-batch, and "capsule/…".
namespace binade::amp {

/// REQUIRES a feed with contents. `number`: of the attempt.
StateDict make_repro_bundle(StateDict state, const Attempt& attempt, const Trial& trial, std::int64_t number);

/// Throws CheckpointError if it is no repro bundle, or one of another version.
void check_repro_bundle(const StateDict& bundle);
/// The contents of its micro-batches. Throws CheckpointError.
std::vector<StateDict> micro_batches_of(const StateDict& bundle);
/// Sets the plan of the attempt. Throws CheckpointError.
void read_plan(const StateDict& bundle, Trial& trial);
std::int64_t attempt_number_of(const StateDict& bundle);
/// Whether `attempt` came to the recorded outcome, to the bit.
bool same_bits(const Attempt& attempt, const StateDict& bundle);

}  // namespace binade::amp
