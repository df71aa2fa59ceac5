#include "binade/core/ops/move.h"

#include "binade/core/kernels/table.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// Returns the kernel arguments that copy `part` to or from its place in `whole`, without addresses and strides.
BoxCopy box_of(const Shape& whole, int axis, const Tensor& part) {
  BoxCopy a{.element_bytes = size_of(part.dtype())};
  if (axis == whole.rank() - 1) {
    a.outer = part.shape().rows();
    a.inner = part.shape().cols();
    return a;
  }
  a.outer = 1;
  for (int d = 0; d < axis; ++d) a.outer *= whole[d];
  a.inner = 1;
  for (int d = axis; d < whole.rank(); ++d) a.inner *= part.dim(d);
  return a;
}

/// Returns the distance in elements between neighboring indices of `axis` in a contiguous tensor.
std::int64_t inner_of(const Shape& whole, int axis) {
  std::int64_t inner = 1;
  for (int d = axis + 1; d < whole.rank(); ++d) inner *= whole[d];
  return inner;
}

}  // namespace

void copy_into(Tensor& whole, int axis, std::int64_t begin, const Tensor& part) {
  const bool last = axis == whole.rank() - 1;
  const Tensor source = last ? part : part.contiguous_copy();
  BoxCopy a = box_of(whole.shape(), axis, source);
  const std::int64_t inner = inner_of(whole.shape(), axis);
  a.from = source.raw();
  a.from_stride = last ? source.pitch() : a.inner;
  a.to = static_cast<std::byte*>(whole.mutable_raw()) + static_cast<std::size_t>(begin * inner) * a.element_bytes;
  a.to_stride = last ? whole.pitch() : whole.dim(axis) * inner;
  kernels(whole.device()).box(a);
}

void copy_out(const Tensor& whole, int axis, std::int64_t begin, Tensor& part) {
  const bool last = axis == whole.rank() - 1;
  const Tensor source = last ? whole : whole.contiguous_copy();
  BoxCopy a = box_of(whole.shape(), axis, part);
  const std::int64_t inner = inner_of(whole.shape(), axis);
  a.from = static_cast<const std::byte*>(source.raw()) + static_cast<std::size_t>(begin * inner) * a.element_bytes;
  a.from_stride = last ? source.pitch() : whole.dim(axis) * inner;
  a.to = part.mutable_raw();
  a.to_stride = last ? part.pitch() : a.inner;
  kernels(whole.device()).box(a);
}

int checked_axis(std::string_view op, int axis, int rank) {
  check<ArgumentError>(axis >= -rank && axis < rank, "{}: wanted an axis in [{}, {}), got {}", where(op), -rank, rank,
                       axis);
  return axis < 0 ? axis + rank : axis;
}

AxisView::AxisView(const Shape& shape, int axis) {
  if (shape.numel() == 0) {
    outer = extent = inner = 0;
    return;
  }
  for (int d = 0; d < axis; ++d) outer *= shape[d];
  if (shape.rank() > 0) extent = shape[axis];
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
}

}  // namespace binade::ops
