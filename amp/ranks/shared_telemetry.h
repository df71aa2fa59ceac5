#pragma once

#include "binade/amp/verdict.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/communicator.h"

namespace binade::amp {

/// Completes the telemetry of an attempt: fetches a GPU's measurements, and replaces those of this rank's micro-batches
/// by those of all ranks. Every rank then has the same magnitudes, on which the loss scale, promotions and warnings
/// depend. After an aborted attempt, ignores the ranks after Attempt::bad_rank, because a single rank would have
/// stopped before their micro-batches.
void complete_telemetry(Communicator& ranks, Telemetry& telemetry, const Attempt& attempt);

}  // namespace binade::amp
