#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "binade/core/error.h"

namespace binade {

/// Extents of a tensor, outermost first; at most 8 of them. A scalar has rank 0 and one element.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// Throws ShapeError on a negative extent, on rank > 8 and when the product overflows.
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Extent i; negative i counts from the back (-1 is the last). Throws ShapeError when out of range.
  std::int64_t dim(int i) const;
  std::int64_t operator[](int i) const { return dim(i); }
  std::int64_t numel() const { return numel_; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }

  /// The product of all extents but the last (1 for rank 0), and the last one (1 for rank 0). A tensor without elements
  /// has no rows: (2^40, 0) is no loop of 2^40 turns.
  std::int64_t rows() const;
  std::int64_t cols() const { return rank_ == 0 ? 1 : dims_[static_cast<std::size_t>(rank_ - 1)]; }

  Shape with_dim(int i, std::int64_t extent) const;  ///< one extent replaced
  std::string to_string() const;                     ///< "(4, 128, 128, 32)"
  /// Where element `index` in row-major order lies: "(2, 0, 17, 5)".
  std::string position(std::int64_t index) const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::int64_t numel_ = 1;
  int rank_ = 0;
};

/// NumPy's broadcasting rule. Throws ShapeError naming `op` when the shapes do not fit.
Shape broadcast(const Shape& a, const Shape& b, std::string_view op);

}  // namespace binade

template <>
struct fmt::formatter<binade::Shape> : binade::PlainFormatter {
  auto format(const binade::Shape& shape, fmt::format_context& ctx) const { return write(shape.to_string(), ctx); }
};
