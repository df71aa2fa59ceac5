#pragma once

#include <cstdint>
#include <string>

#include "binade/core/ops/extent2.h"

namespace binade {

/// The extents of a volume along depth, height and width; a single number sets all three.
struct Extent3 {
  std::int64_t z = 0, y = 0, x = 0;
  constexpr Extent3(std::int64_t all) : z(all), y(all), x(all) {}  // NOLINT(google-explicit-constructor): {.stride = 2}
  constexpr Extent3(std::int64_t depth, std::int64_t height, std::int64_t width) : z(depth), y(height), x(width) {}
  /// The extents of each slice of the volume.
  constexpr Extent2 plane() const { return {y, x}; }
  std::string to_string() const {
    return "(" + std::to_string(z) + ", " + std::to_string(y) + ", " + std::to_string(x) + ")";
  }
  friend bool operator==(const Extent3&, const Extent3&) = default;
};

}  // namespace binade

template <>
struct fmt::formatter<binade::Extent3> : binade::PlainFormatter {
  auto format(const binade::Extent3& extent, fmt::format_context& ctx) const { return write(extent.to_string(), ctx); }
};
