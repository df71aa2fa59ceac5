#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace binade::cuda {

/// Creates an event without a time stamp.
cudaEvent_t make_event();
/// Returns true if the device has passed the last record of `event`, or if `event` was never recorded. Throws the error
/// that stopped the device.
bool is_over(cudaEvent_t event);

/// Places a mark after all submitted work and returns its number.
std::uint64_t set_mark();
/// Returns true if the device has reached the mark.
bool has_reached(std::uint64_t mark);
/// Waits until the device has reached the mark. Throws the error that stopped the device.
void wait_until_reached(std::uint64_t mark);
/// Like wait_until_reached(), and also throws Status::kBadData if a kernel met data for which its op has no result.
void wait_for_mark(std::uint64_t mark);

}  // namespace binade::cuda
