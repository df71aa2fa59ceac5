#pragma once

#include "binade/core/communicator.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Returns a state as bytes for other ranks. Tensors are copied to the host.
Bytes encode_state(const StateDict& state);
/// Returns the state, with tensors on the host. Throws RankError if the bytes are damaged.
StateDict decode_state(std::span<const std::byte> bytes);

}  // namespace binade::amp
