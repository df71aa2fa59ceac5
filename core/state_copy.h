#pragma once

#include "binade/core/state_dict.h"

namespace binade {

/// Returns a copy of the state. Every tensor is copied on its own device and becomes contiguous; all tensors of a
/// device are copied by one kernel call. Does not wait for a GPU.
StateDict cloned(const StateDict& state);

/// Returns the state with every tensor contiguous on the host. Tensors that are contiguous on the host already are
/// shared, not copied. Waits for GPU work submitted before the call; the copies run in a separate stream, in parallel
/// with work that other threads submit (docs/decisions/0031). REQUIRES: the work of other threads does not write to the
/// tensors.
StateDict on_host(const StateDict& state);

}  // namespace binade
