#pragma once

#include <span>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// Other extents, other order, parts and sums of parts; contracts: core/ops/{reshape,permute,slice,concat}.h. Axes
/// count from the back where negative.

/// One extent may be -1: what is left.
Variable reshape(const Variable& x, std::vector<std::int64_t> dims);
/// Dimensions [first, last] made one.
Variable flatten(const Variable& x, int first = 1, int last = -1);
Variable permute(const Variable& x, std::vector<int> order);
/// Two dimensions exchanged.
Variable transpose(const Variable& x, int a = -2, int b = -1);
/// Positions [begin, begin + count) of `axis`.
Variable narrow(const Variable& x, int axis, std::int64_t begin, std::int64_t count);
/// Positions [begin, end) of `axis`; negative ones count from the end.
Variable slice(const Variable& x, int axis, std::int64_t begin, std::int64_t end);
/// One after the other along `axis` (default: channels).
Variable concat(std::span<const Variable> parts, int axis = -1);
inline Variable concat(std::initializer_list<Variable> parts, int axis = -1) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}

}  // namespace binade
