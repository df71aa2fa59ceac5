#include "binade/core/ops/softmax.h"

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/elementwise.h"

namespace binade::ops {
namespace {

/// Computes softmax or, if `log`, log-softmax over the last dimension. x may be a channel slice; y is contiguous.
void forward_rows(const Tensor& x, Tensor& y, bool log) {
  kernels(x.device())
      .softmax({.log = log,
                .rows = x.shape().rows(),
                .cols = x.shape().cols(),
                .pitch = x.pitch(),
                .x = input(x),
                .y = output(y)});
}
void backward_rows(const Tensor& y, const Tensor& gy, Tensor& gx, bool log) {
  kernels(y.device())
      .softmax({.log = log,
                .backward = true,
                .rows = y.shape().rows(),
                .cols = y.shape().cols(),
                .pitch = y.pitch(),
                .x = input(y),
                .gy = input(gy),
                .y = output(gx)});
}

/// Permutes x from (outer, n, inner) to (outer, inner, n) and returns it with shape `shape`.
Tensor swap_inner(const Tensor& x, const Shape& shape, std::int64_t outer, std::int64_t n, std::int64_t inner) {
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const PermuteCopy copy{.element_bytes = size_of(x.dtype()),
                         .rank = 3,
                         .dims = {outer, inner, n},
                         .from_stride = {n * inner, 1, inner},
                         .from = x.raw(),
                         .to = y.mutable_raw()};
  kernels(x.device()).permute(copy);
  return y;
}

/// The axis of a softmax, of n elements. `outer` and `inner` are the products of the extents before and after it.
struct Split {
  int axis;
  std::int64_t outer = 1, n = 1, inner = 1;
  bool last = true;
  Split(const Shape& shape, int wanted, std::string_view op)
      : axis(wanted < 0 ? wanted + std::max(shape.rank(), 1) : wanted) {
    check<ShapeError>(axis >= 0 && axis < std::max(shape.rank(), 1), "{}: wanted an axis of {} (rank {}), got {}",
                      where(op), shape, shape.rank(), wanted);
    if (shape.rank() == 0) return;
    last = axis == shape.rank() - 1;
    n = shape.dim(axis);
    for (int d = 0; d < axis; ++d) outer *= shape.dim(d);
    for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape.dim(d);
  }
  Shape rows_shape() const { return {outer, inner, n}; }
};

/// Moves the axis of the softmax to the end, so that the elements of each softmax are a contiguous row.
Tensor to_rows(const Tensor& x, const Split& s) {
  return swap_inner(x.contiguous_copy(), s.rows_shape(), s.outer, s.n, s.inner);
}
/// The inverse of to_rows(), with a result of shape `shape`.
Tensor from_rows(const Tensor& x, const Split& s, const Shape& shape) {
  return swap_inner(x, shape, s.outer, s.inner, s.n);
}

Tensors forward_of(const OpInfo& info, OpContext& ctx, std::span<const Tensor> in, int axis, bool log) {
  detail::check_floating(info, in);
  const Shape& shape = in[0].shape();
  const Split split(shape, axis, info.name);
  Tensor y;
  if (split.last) {
    y = Tensor::empty(shape, ctx.store_dtype, in[0].device());
    forward_rows(in[0], y, log);
  } else {
    Tensor rows = Tensor::empty(split.rows_shape(), ctx.store_dtype, in[0].device());
    forward_rows(to_rows(in[0], split), rows, log);
    y = from_rows(rows, split, shape);
  }
  ctx.save(y);
  return {y};
}

void backward_of(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx, int axis, bool log) {
  if (!gx.needs(0)) return;
  const Tensor& y = ctx.saved(0, info.name);
  const Split split(y.shape(), axis, info.name);
  if (split.last) {
    Tensor destination = gx.destination(0);
    backward_rows(y, gy, destination, log);
  } else {
    Tensor rows = Tensor::empty(split.rows_shape(), ctx.inputs[0].grad_dtype, y.device());
    backward_rows(to_rows(y, split), to_rows(gy, split), rows, log);
    gx.set(0, from_rows(rows, split, y.shape()));
  }
}

}  // namespace

Tensors Softmax::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return forward_of(info, ctx, in, p.axis, false);
}
void Softmax::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  backward_of(info, ctx, gy[0], gx, p.axis, false);
}

Tensors LogSoftmax::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return forward_of(info, ctx, in, p.axis, true);
}
void LogSoftmax::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  backward_of(info, ctx, gy[0], gx, p.axis, true);
}

}  // namespace binade::ops
