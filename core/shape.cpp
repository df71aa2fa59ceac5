#include "binade/core/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "binade/core/error.h"
#include "binade/core/step_context.h"

namespace binade {

Shape::Shape(std::span<const std::int64_t> dims) {
  check<ShapeError>(dims.size() <= kMaxRank, "shape: wanted at most {} dimensions, got {}", int{kMaxRank}, dims.size());
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
  // Checks that the product of the non-zero extents does not overflow, so that (2^40, 0, 2^40) is rejected whatever the
  // order of its extents.
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t d : dims) {
    check<ShapeError>(d >= 0, "shape: wanted extents >= 0, got {} in {}", d, *this);
    empty = empty || d == 0;
    const std::int64_t extent = std::max<std::int64_t>(d, 1);
    check<ShapeError>(product <= std::numeric_limits<std::int64_t>::max() / 16 / extent,
                      "shape: {} has more elements than a tensor can hold", *this);
    product *= extent;
  }
  numel_ = empty ? 0 : product;
}

std::int64_t Shape::dim(int i) const {
  const int at = i < 0 ? i + rank_ : i;
  check<ShapeError>(at >= 0 && at < rank_, "shape: dimension {} asked of {}, which has {}", i, *this, rank_);
  return dims_[static_cast<std::size_t>(at)];
}

std::int64_t Shape::rows() const { return numel_ == 0 ? 0 : numel_ / cols(); }

Shape Shape::with_dim(int i, std::int64_t extent) const {
  dim(i);  // range check
  auto dims = dims_;
  dims[static_cast<std::size_t>(i < 0 ? i + rank_ : i)] = extent;
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank_)));
}

std::string Shape::to_string() const { return fmt::format("({})", fmt::join(dims(), ", ")); }

std::string Shape::position(std::int64_t index) const {
  Shape at = *this;
  for (std::size_t d = static_cast<std::size_t>(rank_); d-- > 0;) {
    at.dims_[d] = index % dims_[d];
    index /= dims_[d];
  }
  return at.to_string();
}

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.dims(), b.dims()); }

Shape broadcast(const Shape& a, const Shape& b, std::string_view op) {
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  const int rank = std::max(a.rank(), b.rank());
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank() ? a.dim(-i) : 1;
    const std::int64_t y = i <= b.rank() ? b.dim(-i) : 1;
    check<ShapeError>(x == y || x == 1 || y == 1,
                      "{}: shapes {} and {} do not broadcast: {} against {} in dimension {}", where(op), a, b, x, y,
                      -i);
    dims[static_cast<std::size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank)));
}

}  // namespace binade
