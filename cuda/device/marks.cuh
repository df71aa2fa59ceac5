#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace binade::cuda {

/// Whether the device has come to where `event` was last recorded; yes where it never was. Throws what the device died
/// of.
bool is_over(cudaEvent_t event);

/// Marks a point after all submitted work.
std::uint64_t set_mark();
bool has_reached(std::uint64_t mark);
/// Throws the error that stopped the device.
void wait_until_reached(std::uint64_t mark);
/// Throws Status::kBadData too.
void wait_for_mark(std::uint64_t mark);

}  // namespace binade::cuda
