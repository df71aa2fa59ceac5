#pragma once

#include <string_view>

#include "binade/core/communicator.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Returns a state as bytes for other ranks. Tensors are copied to the host.
Bytes encode_state(const StateDict& state);
/// Returns the state, with tensors on the host. Throws RankError if the bytes are damaged.
StateDict decode_state(std::span<const std::byte> bytes);
/// Returns the entries of all ranks' states on rank `to`, and an empty state on the others. The names of the entries of
/// two ranks must differ.
StateDict collect_states(Communicator& ranks, const StateDict& mine, int to, std::string_view what);

}  // namespace binade::amp
