#pragma once

#include <cstdint>

namespace binade::cuda {

/// A point behind all that has been sent.
std::uint64_t set_mark();
bool has_reached(std::uint64_t mark);
/// Throws what the device died of.
void wait_for_mark(std::uint64_t mark);

}  // namespace binade::cuda
