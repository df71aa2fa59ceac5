#pragma once

#include <cstdint>
#include <string_view>

#include "binade/core/backend.h"
#include "binade/cuda/api.h"

namespace binade::cuda {

/// Returns the properties of the open GPU; null if none is open.
const DeviceFacts* facts();

/// Returns the module's table of functions. REQUIRES that a GPU is open.
const Api& api();

/// Throws the matching error, with `what` and the module's text, unless `status` is kOk.
void check(Status status, std::string_view what);

/// Returns how often the host has waited for the device; 0 if no GPU is open. For tests.
std::uint64_t waits();

}  // namespace binade::cuda
