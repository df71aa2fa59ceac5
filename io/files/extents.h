#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "binade/core/shape.h"

namespace binade::io {

/// Returns the shape with the extents that a file gives; std::nullopt if there are more than 8, or if the product of
/// the nonzero extents exceeds 2^48. Zeros are left out of the product so that (0, 2^40, 2^40) is rejected too. The
/// limit guarantees that the number of elements times 8 bytes does not overflow.
std::optional<Shape> shape_from_extents(std::span<const std::uint64_t> extents);

}  // namespace binade::io
