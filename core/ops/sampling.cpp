#include "binade/core/ops/sampling.h"

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// Describes the taps of an index (B, P, T) into a table (B, rows, cols).
TapSums sums_of(const Tensor& index, std::int64_t rows, std::int64_t cols) {
  return {.batches = index.dim(0),
          .rows = rows,
          .points = index.dim(1),
          .taps = index.dim(2),
          .cols = cols,
          .index = index.data<std::int64_t>()};
}

/// Throws unless x, of `rows` rows (-1: any number), and index fit each other.
void check_taps(const OpInfo& op, const Tensor& x, const Tensor& index, std::int64_t rows) {
  check<DTypeError>(is_floating(x.dtype()) && index.dtype() == DType::i64,
                    "{}: wanted x of a floating dtype and an index of i64, got {} and {}", where(op.name),
                    name_of(x.dtype()), name_of(index.dtype()));
  check<ShapeError>(index.rank() == 3 && x.rank() == 3 && x.dim(0) == index.dim(0) && (rows < 0 || x.dim(1) == rows),
                    "{}: wanted an index (B, P, T) and rows (B, R, C) of the same batch, got {} and {}", where(op.name),
                    index.shape(), x.shape());
}
void check_weight(const OpInfo& op, const Tensor& weight, const Tensor& index) {
  check<DTypeError>(is_floating(weight.dtype()), "{}: wanted weights of a floating dtype, got {}", where(op.name),
                    name_of(weight.dtype()));
  check<ShapeError>(weight.shape() == index.shape(), "{}: wanted weights of the shape of the index {}, got {}",
                    where(op.name), index.shape(), weight.shape());
}

/// Weights in the dtype of the sums of x, contiguous.
Tensor wide_weight(const Tensor& weight, const Tensor& x) {
  return weight.to(accumulate_dtype(x.dtype())).contiguous_copy();
}

void gather(const Tensor& x, const Tensor& weight, const Tensor& index, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor wide = wide_weight(weight, x);
  kernels(x.device())
      .weighted_gather(
          {.sums = sums_of(index, x.dim(1), x.dim(2)), .table = input(x), .weight = input(wide), .points = output(y)});
}
void scatter(const Tensor& x, const Tensor& weight, const Tensor& index, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor wide = wide_weight(weight, x);
  kernels(x.device())
      .weighted_scatter(
          {.sums = sums_of(index, y.dim(1), y.dim(2)), .points = input(x), .weight = input(wide), .table = output(y)});
}
void dot(const Tensor& x, const Tensor& point, const Tensor& index, Tensor& y) {
  if (y.numel() == 0) return;
  kernels(x.device())
      .weighted_dot({.sums = sums_of(index, x.dim(1), x.dim(2)),
                     .table = input(x),
                     .points = input(point),
                     .products = output(y)});
}

/// Computes the gradient of input i by compute(destination).
template <class F>
void gradient_of(GradSink& gx, int i, F&& compute) {
  if (!gx.needs(i)) return;
  Tensor destination = gx.destination(i);
  compute(destination);
}

void save_all(OpContext& ctx, const Tensor& a, const Tensor& b, const Tensor& index) {
  ctx.save(a);
  ctx.save(b);
  ctx.save(index);
}

}  // namespace

Tensors WeightedGather::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_taps(info, in[0], in[2], -1);
  check_weight(info, in[1], in[2]);
  const Tensor x = in[0].to(ctx.store_dtype).contiguous_copy(), index = in[2].contiguous_copy();
  Tensor y = Tensor::empty(Shape{index.dim(0), index.dim(1), x.dim(2)}, x.dtype(), x.device());
  gather(x, in[1], index, y);
  save_all(ctx, x, in[1], index);
  return {y};
}

void WeightedGather::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  const Tensor &x = ctx.saved(0, info.name), &weight = ctx.saved(1, info.name), &index = ctx.saved(2, info.name);
  gradient_of(gx, 0, [&](Tensor& g) { scatter(gy[0], weight, index, g); });
  gradient_of(gx, 1, [&](Tensor& g) { dot(x, gy[0], index, g); });
}

Tensors WeightedScatter::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_taps(info, in[0], in[2], in[2].rank() == 3 ? in[2].dim(1) : -1);
  check_weight(info, in[1], in[2]);
  check<ArgumentError>(p.rows >= 0, "{}: wanted 0 or more rows, got {}", where(info.name), p.rows);
  const Tensor x = in[0].to(ctx.store_dtype).contiguous_copy(), index = in[2].contiguous_copy();
  Tensor y = Tensor::empty(Shape{index.dim(0), p.rows, x.dim(2)}, x.dtype(), x.device());
  scatter(x, in[1], index, y);
  save_all(ctx, x, in[1], index);
  return {y};
}

void WeightedScatter::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  const Tensor &x = ctx.saved(0, info.name), &weight = ctx.saved(1, info.name), &index = ctx.saved(2, info.name);
  gradient_of(gx, 0, [&](Tensor& g) { gather(gy[0], weight, index, g); });
  gradient_of(gx, 1, [&](Tensor& g) { dot(gy[0], x, index, g); });
}

Tensors WeightedDot::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_taps(info, in[0], in[2], -1);
  check_taps(info, in[1], in[2], in[2].dim(1));
  check<ShapeError>(in[0].dim(2) == in[1].dim(2), "{}: wanted rows and points with as many columns, got {} and {}",
                    where(info.name), in[0].shape(), in[1].shape());
  const Tensor x = in[0].contiguous_copy(), point = in[1].contiguous_copy(), index = in[2].contiguous_copy();
  Tensor y = Tensor::empty(index.shape(), ctx.store_dtype, x.device());
  dot(x, point, index, y);
  save_all(ctx, x, point, index);
  return {y};
}

void WeightedDot::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  const Tensor &x = ctx.saved(0, info.name), &point = ctx.saved(1, info.name), &index = ctx.saved(2, info.name);
  gradient_of(gx, 0, [&](Tensor& g) { scatter(point, gy[0], index, g); });
  gradient_of(gx, 1, [&](Tensor& g) { gather(x, gy[0], index, g); });
}

}  // namespace binade::ops
