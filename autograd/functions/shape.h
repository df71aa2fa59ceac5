#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// Views, permutations, slices and concatenation; see core/ops/{reshape,permute,slice,concat}.h. Negative axes count
/// from the end.

/// Returns x with other extents. One extent may be -1 and is then computed from the number of elements.
Variable reshape(const Variable& x, std::vector<std::int64_t> dims);
/// Merges dimensions `first` to `last` (inclusive) into one.
Variable flatten(const Variable& x, int first = 1, int last = -1);
Variable permute(const Variable& x, std::vector<int> order);
/// Exchanges two dimensions.
Variable transpose(const Variable& x, int a = -2, int b = -1);
/// Returns the part of x at positions [begin, begin + count) of `axis`.
Variable narrow(const Variable& x, int axis, std::int64_t begin, std::int64_t count);
/// Returns the part of x at positions [begin, end) of `axis`; negative numbers count from the end.
Variable slice(const Variable& x, int axis, std::int64_t begin, std::int64_t end);
/// Returns the part of x from position `begin` of `axis` to its end: NumPy's x[begin:]. begin = -3 gives the last 3.
Variable slice(const Variable& x, int axis, std::int64_t begin);
/// Concatenates along `axis` (default: channels).
Variable concat(std::span<const Variable> parts, int axis = -1);
inline Variable concat(std::initializer_list<Variable> parts, int axis = -1) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}

}  // namespace binade
