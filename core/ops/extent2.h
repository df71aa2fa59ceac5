#pragma once

#include <cstdint>
#include <string>

#include "binade/core/error.h"

namespace binade {

/// A vertical and a horizontal extent; a single number sets both.
struct Extent2 {
  std::int64_t y = 0, x = 0;
  constexpr Extent2(std::int64_t both) : y(both), x(both) {}  // NOLINT(google-explicit-constructor): {.stride = 2}
  constexpr Extent2(std::int64_t vertical, std::int64_t horizontal) : y(vertical), x(horizontal) {}
  std::string to_string() const { return "(" + std::to_string(y) + ", " + std::to_string(x) + ")"; }
  friend bool operator==(const Extent2&, const Extent2&) = default;
};

namespace ops {

/// Largest extent of an image or filter, stride, padding, dilation or factor that ops on images accept. The product of
/// two such numbers does not overflow.
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

}  // namespace ops
}  // namespace binade

template <>
struct fmt::formatter<binade::Extent2> : binade::PlainFormatter {
  auto format(const binade::Extent2& extent, fmt::format_context& ctx) const { return write(extent.to_string(), ctx); }
};
