#pragma once

#include "binade/core/state_dict.h"

namespace binade {

/// Every tensor copied on its own device, contiguous, all of a device in one go: values that stay when the originals
/// are written again. On a GPU it is sent and not waited for.
StateDict cloned(const StateDict& state);

/// Every tensor on the host, itself where it is there and contiguous. What a GPU was sent before is waited for; what
/// other threads send it meanwhile runs beside the copies, on a stream of its own (docs/decisions/0031). REQUIRES that
/// nothing which is sent meanwhile writes to the tensors.
StateDict on_host(const StateDict& state);

}  // namespace binade
