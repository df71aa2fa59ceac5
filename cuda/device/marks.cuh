#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace binade::cuda {

/// Creates an event without a time stamp.
cudaEvent_t make_event();
/// Returns true if the device has passed the last record of `event`, or it was never recorded. Throws the error that
/// stopped the device.
bool is_over(cudaEvent_t event);

/// Marks a point after all submitted work.
std::uint64_t set_mark();
bool has_reached(std::uint64_t mark);
/// Throws the error that stopped the device.
void wait_until_reached(std::uint64_t mark);
/// Throws Status::kBadData too.
void wait_for_mark(std::uint64_t mark);

}  // namespace binade::cuda
