#include "binade/core/ops/broadcast_plan.h"

#include "binade/core/error.h"

namespace binade::ops {
namespace {

/// Elements from one index of dimension d of `t` to the next, with `t` aligned at the right of a shape of rank `rank`;
/// 0 where it repeats.
std::int64_t stride_of(const Tensor& t, int d, int rank) {
  const int own = d - (rank - t.rank());
  if (own < 0 || t.dim(own) == 1) return 0;
  if (own == t.rank() - 1) return 1;
  std::int64_t stride = t.pitch();
  for (int i = own + 1; i < t.rank() - 1; ++i) stride *= t.dim(i);
  return stride;
}

}  // namespace

BroadcastPlan::BroadcastPlan(const Shape& shape, std::initializer_list<const Tensor*> operands) {
  struct Dimension {
    std::int64_t extent;
    Offsets strides;
  };
  std::array<Dimension, Shape::kMaxRank> dims{};
  int count = 0;
  // From the innermost outwards; a dimension joins the one inside it where that is one straight walk for everybody.
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
      const Dimension& inner = dims[static_cast<std::size_t>(count - 1)];
      joins = dim.strides[i] == inner.strides[i] * inner.extent;
    }
    if (joins)
      dims[static_cast<std::size_t>(count - 1)].extent *= dim.extent;
    else
      dims[static_cast<std::size_t>(count++)] = dim;
  }
  if (shape.numel() == 0) runs_ = 0;
  if (count == 0) return;
  // A run needs every operand to move by 0 or 1; a lone column of a channel slice moves by its pitch instead.
  int inner = 1;
  for (const std::int64_t s : dims[0].strides)
    if (s > 1) inner = 0;
  if (inner == 1) {
    length_ = dims[0].extent;
    steps_ = dims[0].strides;
  }
  for (int d = inner; d < count; ++d) {
    extents_[static_cast<std::size_t>(outer_)] = dims[static_cast<std::size_t>(d)].extent;
    strides_[static_cast<std::size_t>(outer_++)] = dims[static_cast<std::size_t>(d)].strides;
    if (runs_ > 0) runs_ *= dims[static_cast<std::size_t>(d)].extent;
  }
}

BroadcastPlan::Offsets BroadcastPlan::start_of(std::int64_t run) const {
  Offsets offsets{};
  for (int d = 0; d < outer_; ++d) {
    const std::int64_t index = run % extents_[static_cast<std::size_t>(d)];
    run /= extents_[static_cast<std::size_t>(d)];
    for (std::size_t i = 0; i < kMaxOperands; ++i) offsets[i] += index * strides_[static_cast<std::size_t>(d)][i];
  }
  return offsets;
}

}  // namespace binade::ops
