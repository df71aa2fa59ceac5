#include "binade/io/files/extents.h"

#include <algorithm>
#include <array>

namespace binade::io {

std::optional<Shape> shape_from_extents(std::span<const std::uint64_t> extents) {
  constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48;
  if (extents.size() > Shape::kMaxRank) return std::nullopt;
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  std::uint64_t product = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const std::uint64_t factor = std::max<std::uint64_t>(extents[i], 1);
    if (factor > kMostElements / product) return std::nullopt;
    product *= factor;
    dims[i] = static_cast<std::int64_t>(extents[i]);
  }
  return Shape(std::span<const std::int64_t>(dims).first(extents.size()));
}

}  // namespace binade::io
