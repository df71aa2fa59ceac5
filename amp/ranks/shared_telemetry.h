#pragma once

#include <cstdint>

#include "binade/amp/watch/telemetry.h"
#include "binade/core/communicator.h"

namespace binade::amp {

/// Completes the telemetry of an attempt: fetches a GPU's measurements, and replaces those of this rank's micro-batches
/// by those of all ranks. Every rank then knows the same magnitudes, by which the loss scale, promotions and early
/// warnings are decided.
void complete_telemetry(Communicator& ranks, Telemetry& telemetry, std::int64_t step);

}  // namespace binade::amp
