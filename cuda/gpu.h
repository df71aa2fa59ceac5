#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/core/backend.h"
#include "binade/cuda/api.h"

namespace binade::cuda {

/// The GPU of this process: null until one has been opened.
const DeviceFacts* facts();

/// The module's table. REQUIRES that a GPU is open.
const Api& api();

/// Throws what `status` stands for, with the module's text behind `what`; returns when it is kOk.
void check(Status status, std::string_view what);

/// How often the host has waited for the device; 0 without one. Tests count with it.
std::uint64_t waits();

/// The algorithms that libraries have chosen so far, as text for a run's folder; "" without a GPU.
std::string plans();
/// Takes such choices over; those of another device or library version are passed by. Returns how many were taken.
int use_plans(const std::string& text);
/// What libraries could not do and kernels of ours did, a line each: for a run's log, once. "" without a GPU.
std::string notes();

}  // namespace binade::cuda
