#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "binade/amp/watch/telemetry.h"

namespace binade::amp {

/// An op that stored an infinity or a NaN, and the op that computed finite results from it.
struct SwallowedInfinity {
  std::size_t origin = 0;     ///< tape index of the op whose operands are finite and whose result is not
  std::size_t swallower = 0;  ///< tape index of the first op that read this result and has a finite one
};

/// Finds infinities that ops of a step stored, and that later ops, such as tanh, turned into finite numbers. `forward`:
/// the records of a step with Telemetry::Probes::limits.
///
/// Leaves out infinities that a program may intend: those that were read from outside of the tape (a mask, a bound),
/// those that an op which accepts masks reads (NonFinite::kMasks), and those that only a selecting op (`where`, a
/// maximum over a dimension) reads.
std::vector<SwallowedInfinity> find_swallowed_infinities(std::span<const Telemetry::OpRecord> forward);

}  // namespace binade::amp
