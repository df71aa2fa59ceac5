#pragma once

#include <string>

#include "binade/core/state_dict.h"

namespace binade::amp {

/// Returns the SHA-256, as 64 hexadecimal digits, of everything that later steps depend on: the sections model
/// (weights), norm (statistics of normalization), optim (moments, counts, averages), rng, sched, callbacks and data
/// (the cursor without its quarantine). The sections amp (loss scale), progress, guard, env, format and manifest are
/// excluded, because an aborted step may change them.
///
/// Hashes name, type, shape and bytes of each entry, in order of name; numbers and lengths are little-endian. A
/// checkpoint and the run that wrote it have the same hash.
std::string state_hash(const StateDict& state);

}  // namespace binade::amp
