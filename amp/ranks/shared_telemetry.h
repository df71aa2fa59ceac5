#pragma once

#include "binade/amp/verdict.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/communicator.h"

namespace binade::amp {

/// Completes the telemetry of an attempt: fetches a GPU's measurements, and replaces those of this rank's micro-batches
/// by those of all ranks. Every rank then knows the same magnitudes, by which the loss scale, promotions and early
/// warnings are decided. After an aborted attempt, leaves out the ranks after that of its bad micro-batch: one rank
/// would not have computed their micro-batches.
void complete_telemetry(Communicator& ranks, Telemetry& telemetry, const Attempt& attempt);

}  // namespace binade::amp
