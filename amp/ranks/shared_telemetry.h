#pragma once

#include <string_view>

#include "binade/amp/watch/telemetry.h"
#include "binade/core/communicator.h"

namespace binade::amp {

/// Replaces the telemetry of this rank's micro-batches by that of all ranks: every rank then knows the same magnitudes,
/// by which the loss scale, promotions and early warnings are decided. Call it after Telemetry::synchronize(). Does
/// nothing alone.
void share_telemetry(Communicator& ranks, Telemetry& telemetry, std::string_view what);

}  // namespace binade::amp
