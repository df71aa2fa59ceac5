#include "binade/autograd/functions/shape.h"

#include <numeric>
#include <utility>

#include "binade/autograd/apply.h"
#include "binade/core/ops/concat.h"
#include "binade/core/ops/permute.h"
#include "binade/core/ops/reshape.h"
#include "binade/core/ops/slice.h"
#include "binade/core/step_context.h"

namespace binade {

Variable reshape(const Variable& x, std::vector<std::int64_t> dims) {
  return apply_one<ops::Reshape>({.dims = std::move(dims)}, {x});
}

Variable flatten(const Variable& x, int first, int last) {
  const int rank = x.value().rank();
  const int begin = ops::checked_axis(ops::Reshape::info, first, rank),
            end = ops::checked_axis(ops::Reshape::info, last, rank);
  check<ArgumentError>(begin <= end, "flatten: wanted first <= last, got {} and {}", first, last);
  std::vector<std::int64_t> dims;
  std::int64_t joined = 1;
  for (int d = 0; d < rank; ++d) {
    if (d >= begin && d <= end) joined *= x.dim(d);
    if (d < begin || d > end) dims.push_back(x.dim(d));
    if (d == end) dims.push_back(joined);
  }
  return reshape(x, std::move(dims));
}

Variable permute(const Variable& x, std::vector<int> order) {
  return apply_one<ops::Permute>({.order = std::move(order)}, {x});
}

Variable transpose(const Variable& x, int a, int b) {
  const int rank = x.value().rank();
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(ops::checked_axis(ops::Permute::info, a, rank))],
            order[static_cast<std::size_t>(ops::checked_axis(ops::Permute::info, b, rank))]);
  return permute(x, std::move(order));
}

Variable narrow(const Variable& x, int axis, std::int64_t begin, std::int64_t count) {
  return apply_one<ops::Slice>({.axis = axis, .begin = begin, .count = count}, {x});
}

Variable slice(const Variable& x, int axis, std::int64_t begin, std::int64_t end) {
  const std::int64_t extent = x.dim(ops::checked_axis(ops::Slice::info, axis, x.value().rank()));
  if (begin < 0) begin += extent;
  if (end < 0) end += extent;
  check<ShapeError>(begin >= 0 && begin <= end && end <= extent,
                    "{}: wanted a range inside dimension {} of {}, got {} to {}", where(ops::Slice::info.name), axis,
                    x.shape(), begin, end);
  return narrow(x, axis, begin, end - begin);
}

Variable slice(const Variable& x, int axis, std::int64_t begin) {
  return slice(x, axis, begin, x.dim(ops::checked_axis(ops::Slice::info, axis, x.value().rank())));
}

Variable concat(std::span<const Variable> parts, int axis) {
  return std::move(apply<ops::Concat>({.axis = axis}, parts).front());
}

}  // namespace binade
