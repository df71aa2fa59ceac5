#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "binade/core/communicator.h"
#include "binade/nn/module.h"

namespace binade::amp {

/// Copies, on the host, of the buffers that earlier phases of a step have written, made before the current phase. They
/// are the same on all ranks. Empty in the first phase.
using StartValues = std::map<const nn::Buffer*, Tensor>;
StartValues start_values(nn::Module& model);

/// Returns true if forward has changed the buffer in the phase that began with `start`.
bool has_changed(const nn::Buffer& buffer, const StartValues& start);

/// Encodes the values that forward has written on this rank into buffers with a known rule (nn::SharedRule, and amax
/// histories of fp8). Adds all such buffers to `known`. Throws ArgumentError if a dtype does not fit.
Bytes encode_shared_buffers(nn::Module& model, const StartValues& start, std::set<const nn::Buffer*>& known);

/// Writes into the buffers the values that a single rank would have written if it had computed all micro-batches.
/// `all`: encode_shared_buffers() of every rank. Throws RankError if a buffer that changes once per step does not have
/// the same bits on all ranks that wrote it, or if the bytes do not fit the model.
void combine_shared_buffers(nn::Module& model, const StartValues& start,
                            const std::vector<std::span<const std::byte>>& all);

}  // namespace binade::amp
