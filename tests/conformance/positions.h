#pragma once

#include <cstdint>
#include <vector>

#include "binade/core/shape.h"

/// Row-major indices and coordinates, for references.
namespace binade::conformance {

inline std::vector<std::int64_t> position_of(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> position(static_cast<std::size_t>(shape.rank()));
  for (int d = shape.rank() - 1; d >= 0; --d) {
    position[static_cast<std::size_t>(d)] = index % shape.dim(d);
    index /= shape.dim(d);
  }
  return position;
}
inline std::int64_t index_of(const Shape& shape, const std::vector<std::int64_t>& position) {
  std::int64_t index = 0;
  for (int d = 0; d < shape.rank(); ++d) index = index * shape.dim(d) + position[static_cast<std::size_t>(d)];
  return index;
}

}  // namespace binade::conformance
