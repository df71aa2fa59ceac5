#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "binade/core/shape.h"

namespace binade::io {

/// The shape that a file's extents make. Nothing when there are more than 8, or when those that are not zero multiply
/// to more than 2^48: (0, 2^40, 2^40) has no element and no sound file has it. Elements times 8 bytes cannot overflow
/// then.
std::optional<Shape> shape_from_extents(std::span<const std::uint64_t> extents);

}  // namespace binade::io
