#include "binade/core/ops/reduce.h"

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/binary.h"
#include "binade/core/ops/broadcast_plan.h"
#include "binade/core/ops/fold.h"

namespace binade::ops {
namespace {

/// Returns the kernel arguments of a reduction of x to y. y has the rank of x, with extent 1 in reduced dimensions.
/// Neighboring dimensions that are all reduced, or all kept, are merged into one group.
ReduceArgs arguments(const Tensor& x, Tensor& y) {
  ReduceArgs a{.x = input(x), .y = output(y), .pitch = x.contiguous() ? 0 : x.pitch()};
  const bool slice = a.pitch != 0;
  for (int d = 0; d < x.rank(); ++d) {
    const bool last = slice && d == x.rank() - 1;
    if (x.dim(d) == 1 && !last) continue;
    const bool reduced = y.dim(d) == 1 && x.dim(d) != 1;
    if (a.groups > 0 && a.reduced[a.groups - 1] == reduced && !last) {
      a.extents[a.groups - 1] *= x.dim(d);
    } else {
      a.extents[a.groups] = x.dim(d);
      a.reduced[a.groups++] = reduced;
    }
  }
  return a;
}

void reduce(const Tensor& any, Tensor& y, double divisor, bool largest) {
  Tensor x = any;
  ReduceArgs a = arguments(x, y);
  if (a.pitch != 0 && a.groups > 2 && !a.reduced[a.groups - 1] && !a.reduced[a.groups - 2]) {
    // Kernels need the kept dimensions at the end to be contiguous, and those of a channel slice are not.
    x = any.contiguous_copy();
    a = arguments(x, y);
  }
  a.largest = largest;
  a.divisor = divisor;
  kernels(x.device()).reduce(a);
}

void sum(const Tensor& x, Tensor& y, double divisor) { reduce(x, y, divisor, false); }

/// Sets gx to g where x equals y, else to 0. y and g broadcast to the shape of x.
void max_gradient(const Tensor& x, const Tensor& y, const Tensor& g, Tensor& gx) {
  kernels(gx.device())
      .max_gradient({.walk = broadcast_walk(gx.shape(), {&x, &y, &g, &gx}),
                     .in = {input(x), input(y), input(g)},
                     .out = output(gx)});
}

/// y = a / b.
void divide(const Tensor& a, const Tensor& b, Tensor& y) { detail::binary(listed_binary<Div>(), a, b, y); }

double count_of(const Shape& x, const Shape& kept) {
  double count = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (kept.dim(d) != x.dim(d)) count *= static_cast<double>(x.dim(d));
  return count;
}

Tensors sum_forward(const OpInfo& info, const OpContext& ctx, std::span<const Tensor> in, const ReduceParams& p,
                    bool mean) {
  if (!mean && !is_floating(in[0].dtype())) return {detail::sum_of_whole(info, in[0], p)};
  detail::check_floating(info, in);
  const Shape kept = keepdim_shape(in[0].shape(), p.axes, info.name);
  Tensor y = Tensor::empty(kept, ctx.store_dtype, in[0].device());
  sum(in[0], y, mean ? count_of(in[0].shape(), kept) : 1);
  return {y.reshape(visible_shape(in[0].shape(), kept, p))};
}

void sum_backward(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx, const ReduceParams& p,
                  bool mean) {
  if (!gx.needs(0)) return;
  const Shape& shape = ctx.inputs[0].shape;
  const Shape kept = keepdim_shape(shape, p.axes, info.name);
  Tensor destination = gx.destination(0);
  const Tensor divisor = Tensor::scalar(mean ? count_of(shape, kept) : 1, accumulate_dtype(gy.dtype()), gy.device());
  divide(gy.reshape(kept), divisor, destination);
}

}  // namespace

Shape visible_shape(const Shape& x, const Shape& kept, const ReduceParams& p) {
  if (p.keepdim) return kept;
  std::vector<std::int64_t> dims;
  std::vector<bool> reduced(static_cast<std::size_t>(x.rank()), p.axes.empty());
  for (const int axis : p.axes) reduced[static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis)] = true;
  for (int d = 0; d < x.rank(); ++d)
    if (!reduced[static_cast<std::size_t>(d)]) dims.push_back(x.dim(d));
  return Shape(std::span<const std::int64_t>(dims));
}

Shape keepdim_shape(const Shape& x, const std::vector<int>& axes, std::string_view op) {
  std::vector<std::int64_t> dims(x.dims().begin(), x.dims().end());
  std::vector<bool> seen(dims.size(), false);
  for (const int axis : axes) {
    check<ShapeError>(axis >= -x.rank() && axis < x.rank(), "{}: wanted axes of {} (rank {}), got axis {}", where(op),
                      x, x.rank(), axis);
    const std::size_t d = static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis);
    check<ArgumentError>(!seen[d], "{}: axis {} is named twice", where(op), axis);
    seen[d] = true;
  }
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (axes.empty() || seen[d]) dims[d] = 1;
  return Shape(std::span<const std::int64_t>(dims));
}

void sum_to_kept(const Tensor& x, Tensor& y) { sum(x, y, 1); }

void sum_to(const Tensor& x, Tensor& y) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.rank() - y.rank()), 1);
  dims.insert(dims.end(), y.shape().dims().begin(), y.shape().dims().end());
  Tensor kept = y.reshape(Shape(std::span<const std::int64_t>(dims)));
  sum(x, kept, 1);
}

Tensors Sum::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return sum_forward(info, ctx, in, p, false);
}
void Sum::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  sum_backward(info, ctx, gy[0], gx, p, false);
}

Tensors Mean::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return sum_forward(info, ctx, in, p, true);
}
void Mean::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  sum_backward(info, ctx, gy[0], gx, p, true);
}

Tensors Max::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  if (!is_floating(in[0].dtype())) return {detail::largest_of_whole(info, in[0], p)};
  const Shape& shape = in[0].shape();
  const Shape kept = keepdim_shape(shape, p.axes, info.name);
  check<ShapeError>(shape.numel() > 0 || kept.numel() == 0, "{}: nothing to take the largest of in {}",
                    where(info.name), shape);
  Tensor y = Tensor::empty(kept, ctx.store_dtype, in[0].device());
  reduce(in[0], y, 1, true);
  ctx.save(in[0]);
  ctx.save(y);
  return {y.reshape(visible_shape(shape, kept, p))};
}

void Max::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (gx.needs(0)) share_among_equal(ctx.saved(0, info.name), ctx.saved(1, info.name), gy[0], gx);
}

void share_among_equal(const Tensor& x, const Tensor& y, const Tensor& gy, GradSink& gx) {
  const DType dtype = accumulate_dtype(x.dtype());
  Tensor equals = Tensor::empty(x.shape(), dtype, x.device());
  max_gradient(x, y, Tensor::scalar(1, dtype, x.device()), equals);
  Tensor count = Tensor::empty(y.shape(), dtype, x.device());
  sum(equals, count, 1);
  Tensor share = Tensor::empty(y.shape(), dtype, x.device());
  divide(gy.reshape(y.shape()), count, share);
  Tensor destination = gx.destination(0);
  max_gradient(x, y, share, destination);
}

}  // namespace binade::ops
