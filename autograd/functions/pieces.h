#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "binade/autograd/variable.h"

/// Functions that add axes, join tensors, list combinations, or return a copy of a tensor with one part replaced.
/// Tensors have any dtype. Negative axes count from the end. Functions throw ShapeError and ArgumentError with their
/// name.
namespace binade {

/// Returns x with at least 1, 2 or 3 axes: () -> (1); (n) -> (1, n); (n) -> (1, n, 1), (m, n) -> (m, n, 1).
Variable atleast_1d(const Variable& x);
Variable atleast_2d(const Variable& x);
Variable atleast_3d(const Variable& x);
/// Expands tensors to the shape to which all of them broadcast.
std::vector<Variable> broadcast_tensors(std::span<const Variable> parts);
inline std::vector<Variable> broadcast_tensors(std::initializer_list<Variable> parts) {
  return broadcast_tensors(std::span(parts.begin(), parts.size()));
}
/// Concatenates vectors (n), which become columns, and matrices along axis 1.
Variable column_stack(std::span<const Variable> parts);
inline Variable column_stack(std::initializer_list<Variable> parts) {
  return column_stack(std::span(parts.begin(), parts.size()));
}
/// Concatenates along axis 2, after atleast_3d() of each.
Variable dstack(std::span<const Variable> parts);
inline Variable dstack(std::initializer_list<Variable> parts) { return dstack(std::span(parts.begin(), parts.size())); }

/// Joins sequences (L_i, …) of different lengths to (B, L, …), where L is the largest length; positions beyond the end
/// of a sequence have `value`.
Variable pad_sequence(std::span<const Variable> sequences, double value = 0);
inline Variable pad_sequence(std::initializer_list<Variable> sequences, double value = 0) {
  return pad_sequence(std::span(sequences.begin(), sequences.size()), value);
}

/// Return x with `source` in place of select(x, axis, i), of slice(x, axis, begin, end, step), or of
/// diagonal(x, offset, first, second), whose shape and dtype `source` must have. Throw ShapeError for a range outside
/// of the axis, and for a source of another shape.
Variable select_scatter(const Variable& x, const Variable& source, int axis, std::int64_t i);
Variable slice_scatter(const Variable& x, const Variable& source, int axis, std::int64_t begin, std::int64_t end,
                       std::int64_t step = 1);
Variable diagonal_scatter(const Variable& x, const Variable& source, std::int64_t offset = 0, int first = 0,
                          int second = 1);
/// Returns x with the first elements of `source`, in row-major order, where the mask (u8 or bool, which broadcasts to
/// x) is set. Waits for a GPU. Throws ShapeError if the source has too few elements.
Variable masked_scatter(const Variable& x, const Variable& mask, const Variable& source);

/// All tuples with one element of each vector, as rows: (m), (n) -> (m n, 2). One vector is returned as it is.
Variable cartesian_prod(std::span<const Variable> vectors);
inline Variable cartesian_prod(std::initializer_list<Variable> vectors) {
  return cartesian_prod(std::span(vectors.begin(), vectors.size()));
}
/// All choices of `count` elements of the vector x, in the order of their positions, in rows; with `replacement`, an
/// element may be chosen again. At most 2^31 elements. The positions are listed on the host, so a step that calls it
/// for a GPU is not captured in a graph.
Variable combinations(const Variable& x, std::int64_t count = 2, bool replacement = false);

}  // namespace binade
