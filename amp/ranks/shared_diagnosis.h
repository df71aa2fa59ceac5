#pragma once

#include <functional>

#include "binade/amp/incident/diagnosis.h"
#include "binade/core/communicator.h"

namespace binade::amp {

/// Replays the step with a change, over all ranks. `observer` may be null.
using Replay = std::function<Attempt(const Variant& variant, TapeObserver* observer)>;

/// Returns the diagnosis of rank `leader` on every rank. `diagnose` runs on the leader only, because its observers see
/// the ops of the bad micro-batch only there. Each replay that it makes runs on all ranks. On the other ranks the
/// result has no pointers into the leader's process: FirstBad::info is null, but the names are set.
Diagnosis share_diagnosis(Communicator& ranks, int leader, const Replay& replay,
                          const std::function<Diagnosis(const Replay& replay)>& diagnose);

}  // namespace binade::amp
