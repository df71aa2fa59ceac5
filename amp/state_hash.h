#pragma once

#include <string>

#include "binade/core/state_dict.h"

namespace binade::amp {

/// SHA-256, as 64 hexadecimal digits, over everything that decides how training goes on: the sections model (weights),
/// norm (statistics of normalization), optim (moments, counts, averages), rng, sched and data (the cursor). Not over
/// amp (loss scale), progress, guard, env, format, manifest: an aborted step may change those.
///
/// Per entry in order of name: name, kind, shape and bytes, each with its length, little-endian. A function of the
/// state alone, so that a checkpoint and the run that wrote it give the same digits.
std::string state_hash(const StateDict& state);

}  // namespace binade::amp
