#include "binade/core/ops/broadcast_plan.h"

#include <algorithm>
#include <array>

#include "binade/core/error.h"

namespace binade::ops {
namespace {

/// Returns the stride of `t` in elements along dimension `d` of a shape of rank `rank` to which it broadcasts; 0 if `t`
/// repeats along that dimension.
std::int64_t stride_of(const Tensor& t, int d, int rank) {
  const int own = d - (rank - t.rank());
  if (own < 0 || t.dim(own) == 1) return 0;
  if (own == t.rank() - 1) return 1;
  std::int64_t stride = t.pitch();
  for (int i = own + 1; i < t.rank() - 1; ++i) stride *= t.dim(i);
  return stride;
}

}  // namespace

Walk broadcast_walk(const Shape& shape, std::initializer_list<const Tensor*> operands) {
  struct Dimension {
    std::int64_t extent;
    std::array<std::int64_t, Walk::kMaxOperands> strides;
  };
  std::array<Dimension, Walk::kMaxRank> dims{};
  std::size_t count = 0;
  // Goes from the innermost dimension outwards. A dimension is merged with the previous one if one stride per operand
  // describes both.
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape.dim(d) == 1) continue;
    Dimension dim{shape.dim(d), {}};
    std::size_t i = 0;
    for (const Tensor* operand : operands) {
      check<ShapeError>(operand->rank() <= shape.rank(), "broadcast: {} does not fit {}", operand->shape(), shape);
      dim.strides[i++] = stride_of(*operand, d, shape.rank());
    }
    bool joins = count > 0;
    for (i = 0; joins && i < operands.size(); ++i) {
      const Dimension& inner = dims[count - 1];
      joins = dim.strides[i] == inner.strides[i] * inner.extent;
    }
    if (joins)
      dims[count - 1].extent *= dim.extent;
    else
      dims[count++] = dim;
  }
  Walk walk{.runs = shape.numel() == 0 ? 0 : 1, .length = 1};
  if (count == 0) return walk;
  // In a run, operands advance by 0 or 1. If an operand is one column of a channel slice, it advances by its pitch, so
  // runs have length 1.
  const std::size_t inner = std::ranges::any_of(dims[0].strides, [](std::int64_t s) { return s > 1; }) ? 0 : 1;
  if (inner == 1) {
    walk.length = dims[0].extent;
    std::ranges::copy(dims[0].strides, walk.steps);
  }
  for (std::size_t d = inner; d < count; ++d) {
    walk.extents[walk.outer] = dims[d].extent;
    std::ranges::copy(dims[d].strides, walk.strides[walk.outer++]);
    walk.runs *= dims[d].extent;
  }
  return walk;
}

}  // namespace binade::ops
