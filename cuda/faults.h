#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cuda/api.h"

/// Data that an op has no result for (a target that is no class, an index outside a table) is found by a kernel, when
/// the host has gone on. The kernel notes the first place and leaves NaN; the next time the host waits for the device
/// it throws the DataError that the CPU throws at once.
namespace binade::cuda {

/// The words of such an error, from where the bad value lies and what it is.
using Describe = std::function<std::string(std::int64_t position, std::int64_t value)>;

/// A number for a call that may meet bad data. The words of the last 1,024 are kept.
std::uint64_t number_call(Describe describe);

/// What `fault` is in words.
std::string describe(const Fault& fault);

}  // namespace binade::cuda
