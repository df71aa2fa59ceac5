#pragma once

#include <cstdint>
#include <string_view>

#include "binade/core/backend.h"
#include "binade/cuda/api.h"

namespace binade::cuda {

/// Returns the properties of the open GPU; null if none is open.
const DeviceFacts* facts();

/// The module's table. REQUIRES that a GPU is open.
const Api& api();

/// Returns if `status` is kOk; otherwise throws the matching error, with `what` and the module's text.
void check(Status status, std::string_view what);

/// Returns how often the host has waited for the device; 0 without one. For tests.
std::uint64_t waits();

}  // namespace binade::cuda
