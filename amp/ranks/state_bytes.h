#pragma once

#include <string_view>

#include "binade/core/communicator.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Encodes a state as bytes, for other ranks. Tensors are copied to the host.
Bytes encode_state(const StateDict& state);
/// Returns the state, with tensors on the host. Throws RankError if the bytes are damaged.
StateDict decode_state(std::span<const std::byte> bytes);
/// Sends the states of all ranks to rank `to`, and returns all their entries there. Returns an empty state on the other
/// ranks. No two ranks may have an entry with the same name.
StateDict collect_states(Communicator& ranks, const StateDict& mine, int to, std::string_view what);

}  // namespace binade::amp
