#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "binade/core/communicator.h"
#include "binade/nn/module.h"

namespace binade::amp {

/// The values with which a phase of a step begins, on the host, of the buffers that earlier phases of the step have
/// written. They are the same on all ranks. Empty in the first phase.
using StartValues = std::map<const nn::Buffer*, Tensor>;
StartValues start_values(nn::Module& model);

/// Returns true if forward has changed the buffer in the phase that began with `start`.
bool has_changed(const nn::Buffer& buffer, const StartValues& start);

/// Returns what forward has written on this rank into the buffers whose rule is known (nn/shared_buffers.h, and the
/// histories of fp8), for the other ranks. Adds these buffers to `known`.
Bytes encode_shared_buffers(nn::Module& model, const StartValues& start, std::set<const nn::Buffer*>& known);

/// Writes into the buffers what one rank would have written that computes the micro-batches of all ranks. `all`:
/// encode_shared_buffers() of every rank. Throws RankError if a buffer that changes once per step has other bits on
/// another rank, and ArgumentError if the dtype of a buffer does not fit its rule.
void combine_shared_buffers(nn::Module& model, const StartValues& start,
                            const std::vector<std::span<const std::byte>>& all);

}  // namespace binade::amp
