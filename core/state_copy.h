#pragma once

#include "binade/core/state_dict.h"

namespace binade {

/// Returns a copy with every tensor copied on its own device, contiguous; all tensors of a device are copied in one
/// call. Does not wait for a GPU.
StateDict cloned(const StateDict& state);

/// Returns the state with every tensor contiguous on the host; tensors that already are so are shared, not copied.
/// Waits for GPU work submitted before the call; the copies run in a stream of their own, in parallel with work that
/// other threads submit (docs/decisions/0031). REQUIRES: that work does not write to the tensors.
StateDict on_host(const StateDict& state);

}  // namespace binade
