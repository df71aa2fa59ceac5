#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "binade/core/error.h"

namespace binade {

/// Extents of a tensor, outermost first, at most 8. A scalar has rank 0 and one element.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// Throws ShapeError if an extent is negative, the rank exceeds 8 or the number of elements overflows.
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Returns extent i; a negative i counts from the end (-1 is the last). Throws ShapeError if i is out of range.
  std::int64_t dim(int i) const;
  std::int64_t operator[](int i) const { return dim(i); }
  std::int64_t numel() const { return numel_; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }

  /// Returns the product of all extents but the last (1 for rank 0), or 0 if the tensor has no elements, so that a loop
  /// over the rows of a (2^40, 0) tensor does nothing.
  std::int64_t rows() const;
  /// Returns the last extent (1 for rank 0).
  std::int64_t cols() const { return rank_ == 0 ? 1 : dims_[static_cast<std::size_t>(rank_ - 1)]; }

  /// Returns a copy with extent i replaced by `extent`.
  Shape with_dim(int i, std::int64_t extent) const;
  std::string to_string() const;  ///< "(4, 128, 128, 32)"
  /// Returns the coordinates of the element at row-major `index`: "(2, 0, 17, 5)".
  std::string position(std::int64_t index) const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::int64_t numel_ = 1;
  int rank_ = 0;
};

/// Returns the shape to which `a` and `b` broadcast as in NumPy. Throws ShapeError, which names `op`, if they do not.
Shape broadcast(const Shape& a, const Shape& b, std::string_view op);

}  // namespace binade

template <>
struct fmt::formatter<binade::Shape> : binade::PlainFormatter {
  auto format(const binade::Shape& shape, fmt::format_context& ctx) const { return write(shape.to_string(), ctx); }
};
