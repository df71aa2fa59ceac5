#include "binade/core/ops/fold.h"

#include <array>

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/broadcast_plan.h"
#include "binade/core/ops/cumulate.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/move.h"
#include "binade/core/ops/permute.h"

namespace binade::ops {
namespace {

/// x as (outer, count, inner), where the middle dimension is reduced.
struct Lines {
  Tensor x;
  std::vector<int> order{};  ///< the permutation that made the reduced dimensions adjacent; may be empty
  std::int64_t outer = 1, count = 1, inner = 1;
};

Tensor permuted(const Tensor& x, const std::vector<int>& order) {
  OpContext context;
  return Permute::forward(context, std::array{x}, {order}).front();
}

Lines lines_of(const Tensor& x, const std::vector<int>& axes) {
  std::vector<bool> reduced(static_cast<std::size_t>(x.rank()), axes.empty());
  for (const int axis : axes) reduced[static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis)] = true;
  Lines lines{.x = x.contiguous_copy()};
  int first = -1, last = -1, count = 0;
  for (int d = 0; d < x.rank(); ++d)
    if (reduced[static_cast<std::size_t>(d)]) {
      if (first < 0) first = d;
      last = d;
      ++count;
    }
  if (count > 0 && last - first + 1 != count) {
    for (int d = 0; d < x.rank(); ++d)
      if (!reduced[static_cast<std::size_t>(d)]) lines.order.push_back(d);
    first = static_cast<int>(lines.order.size());
    last = x.rank() - 1;
    for (int d = 0; d < x.rank(); ++d)
      if (reduced[static_cast<std::size_t>(d)]) lines.order.push_back(d);
    lines.x = permuted(x, lines.order);
  }
  for (int d = 0; d < x.rank(); ++d) {
    std::int64_t& extent = first < 0 || d < first ? lines.outer : d <= last ? lines.count : lines.inner;
    extent *= lines.x.dim(d);
  }
  return lines;
}

/// Folds x over `axes` to y, and stores positions in `index`; either may be null.
void fold(FoldKind kind, const Tensor& x, const std::vector<int>& axes, Tensor* y, Tensor* index) {
  const Lines lines = lines_of(x, axes);
  kernels(x.device())
      .fold({.kind = kind,
             .x = input(lines.x),
             .y = y == nullptr ? Out{} : output(*y),
             .index = index == nullptr ? nullptr : index->mutable_data<std::int64_t>(),
             .outer = lines.outer,
             .count = lines.count,
             .inner = lines.inner});
}

Shape visible(const Shape& x, const Shape& kept, const std::vector<int>& axes, bool keepdim) {
  return visible_shape(x, kept, {axes, keepdim});
}

void check_elements(const OpInfo& info, const Shape& x, const Shape& kept) {
  check<ShapeError>(x.numel() > 0 || kept.numel() == 0, "{}: wanted elements to choose from, got {}", where(info.name),
                    x);
}

Tensor folded(const OpInfo& info, FoldKind kind, const Tensor& x, const ReduceParams& p, DType dtype) {
  const Shape kept = keepdim_shape(x.shape(), p.axes, info.name);
  if (kind == FoldKind::kMax || kind == FoldKind::kMin) check_elements(info, x.shape(), kept);
  Tensor y = Tensor::empty(kept, dtype, x.device());
  fold(kind, x, p.axes, &y, nullptr);
  return y.reshape(visible(x.shape(), kept, p.axes, p.keepdim));
}

Tensors extrema(const OpInfo& info, FoldKind kind, OpContext& ctx, const Tensor& x, const AlongParams& p) {
  const std::vector<int> axes = x.rank() == 0 ? std::vector<int>{} : std::vector{checked_axis(info, p.axis, x.rank())};
  const Shape kept = keepdim_shape(x.shape(), axes, info.name);
  check_elements(info, x.shape(), kept);
  Tensor y = Tensor::empty(kept, is_floating(x.dtype()) ? ctx.store_dtype : x.dtype(), x.device());
  Tensor index = Tensor::empty(kept, DType::i64, x.device());
  fold(kind, x, axes, &y, &index);
  ctx.save(index);
  ctx.non_differentiable_outputs = 0b10;
  const Shape shape = visible(x.shape(), kept, axes, p.keepdim);
  return {y.reshape(shape), index.reshape(shape)};
}

/// Returns 0, 1, …, n - 1 as i64. The device computes them, because a captured step cannot copy from the host.
Tensor all_positions(const OpInfo& info, std::int64_t n, Device device) {
  const Tensor one = Tensor::full(Shape{}, 1, DType::i64, device);
  OpContext context;
  const Tensor upto =
      Cumulate::forward(context, std::array{Tensor::full(Shape{n}, 1, DType::i64, device)}, {.axis = 0}).front();
  return detail::exact(info, position_in<exact::Sub>(ExactOps{}), std::array{upto, one}, DType::i64);
}

/// Passes gy to the elements at the saved positions along the axis, and 0 to the others.
void extrema_backward(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx, const AlongParams& p) {
  if (!gx.needs(0) || !gy.defined()) return;
  const Tensor& index = ctx.saved(0, info.name);
  const Shape& shape = ctx.inputs[0].shape;
  Tensor destination = gx.destination(0);
  if (shape.rank() == 0) return destination.copy_from(gy);
  if (shape.numel() == 0) return;
  const int axis = checked_axis(info, p.axis, shape.rank());
  std::vector<std::int64_t> dims(1, shape.dim(axis));
  dims.resize(static_cast<std::size_t>(shape.rank() - axis), 1);
  const Tensor at =
      all_positions(info, shape.dim(axis), gy.device()).reshape(Shape(std::span<const std::int64_t>(dims)));
  const Tensor taken = detail::exact(info, position_in<exact::Equal>(ExactOps{}), std::array{index, at},
                                     DType::boolean);
  const Tensor zero = Tensor::zeros(Shape{}, gy.dtype(), gy.device()), g = gy.reshape(index.shape());
  kernels(gy.device())
      .where({.walk = broadcast_walk(shape, {&taken, &g, &zero, &destination}),
              .in = {input(taken), input(g), input(zero)},
              .out = output(destination)});
}

Tensors position(const OpInfo& info, FoldKind kind, const Tensor& x, const ArgParams& p) {
  std::vector<int> axes;
  if (p.axis && x.rank() > 0) axes.push_back(checked_axis(info, *p.axis, x.rank()));
  const Shape kept = keepdim_shape(x.shape(), axes, info.name);
  check_elements(info, x.shape(), kept);
  Tensor index = Tensor::empty(kept, DType::i64, x.device());
  fold(kind, x, axes, nullptr, &index);
  return {index.reshape(visible(x.shape(), kept, axes, p.keepdim))};
}

/// Returns x != 0 as bool.
Tensor truths(const OpInfo& info, const Tensor& x) {
  if (x.dtype() == DType::boolean) return x;
  return detail::exact(info, position_in<exact::NotEqual>(ExactOps{}),
                       std::array{x, Tensor::zeros(Shape{}, x.dtype(), x.device())}, DType::boolean);
}

Tensor wide_like(const Tensor& x) { return Tensor::empty(x.shape(), accumulate_dtype(x.dtype()), x.device()); }

}  // namespace

namespace detail {
Tensor sum_of_whole(const OpInfo& info, const Tensor& x, const ReduceParams& p) {
  return folded(info, FoldKind::kSum, x, p, DType::i64);
}
Tensor largest_of_whole(const OpInfo& info, const Tensor& x, const ReduceParams& p) {
  return folded(info, FoldKind::kMax, x, p, x.dtype());
}
}  // namespace detail

Tensors Prod::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  ctx.save(in[0]);
  return {folded(info, FoldKind::kProduct, in[0], p, is_floating(in[0].dtype()) ? ctx.store_dtype : DType::i64)};
}

void Prod::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const Lines lines = lines_of(ctx.saved(0, info.name), p.axes);
  Tensor destination = gx.destination(0);
  Tensor g = lines.order.empty() ? destination : Tensor::empty(lines.x.shape(), destination.dtype(), gy[0].device());
  kernels(g.device())
      .product_gradient({.x = input(lines.x),
                         .gy = input(gy[0]),
                         .gx = output(g),
                         .outer = lines.outer,
                         .count = lines.count,
                         .inner = lines.inner});
  if (lines.order.empty()) return;
  std::vector<int> back(lines.order.size());
  for (std::size_t i = 0; i < back.size(); ++i) back[static_cast<std::size_t>(lines.order[i])] = static_cast<int>(i);
  destination.copy_from(permuted(g, back));
}

Tensors Min::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const bool floating = is_floating(in[0].dtype());
  const Tensor y = folded(info, FoldKind::kMin, in[0], p, floating ? ctx.store_dtype : in[0].dtype());
  ctx.save(in[0]);
  ctx.save(y.reshape(keepdim_shape(in[0].shape(), p.axes, info.name)));
  return {y};
}

void Min::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (gx.needs(0)) share_among_equal(ctx.saved(0, info.name), ctx.saved(1, info.name), gy[0], gx);
}

Tensors MaxAlong::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return extrema(info, FoldKind::kMax, ctx, in[0], p);
}
void MaxAlong::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  extrema_backward(info, ctx, gy[0], gx, p);
}
Tensors MinAlong::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return extrema(info, FoldKind::kMin, ctx, in[0], p);
}
void MinAlong::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  extrema_backward(info, ctx, gy[0], gx, p);
}

Tensors ArgMax::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  return position(info, FoldKind::kMax, in[0], p);
}
Tensors ArgMin::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  return position(info, FoldKind::kMin, in[0], p);
}

Tensors Any::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  return {folded(info, FoldKind::kSum, truths(info, in[0]), p, DType::boolean)};
}
Tensors All::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  return {folded(info, FoldKind::kProduct, truths(info, in[0]), p, DType::boolean)};
}

Tensors Norm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check<ArgumentError>(p.p != 0 && p.p - p.p == 0, "{}: wanted a finite p other than 0, got {}", where(info.name), p.p);
  detail::check_floating(info, in);
  const Tensor& x = in[0];
  const Shape kept = keepdim_shape(x.shape(), p.axes, info.name);
  Tensor powers = wide_like(x);
  if (p.p == 2) {
    detail::unary(listed_unary<Square>(), x, powers, {});
  } else {
    detail::unary(listed_unary<Abs>(), x, powers, {});
    if (p.p != 1) {
      const Tensor magnitudes = powers;
      powers = wide_like(x);
      detail::unary(listed_unary<Pow>(), magnitudes, powers, OpParams(Pow::Params{p.p}));
    }
  }
  Tensor total = Tensor::empty(kept, powers.dtype(), x.device());
  sum_to_kept(powers, total);
  Tensor y = Tensor::empty(kept, ctx.store_dtype, x.device());
  if (p.p == 2)
    detail::unary(listed_unary<Sqrt>(), total, y, {});
  else
    detail::unary(listed_unary<Pow>(), total, y, OpParams(Pow::Params{1 / p.p}));
  ctx.save(x);
  y = y.reshape(visible(x.shape(), kept, p.axes, p.keepdim));
  ctx.save(y);
  return {y};
}

void Norm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const Tensor& x = ctx.saved(0, info.name);
  const Tensor y = ctx.saved(1, info.name).reshape(keepdim_shape(x.shape(), p.axes, info.name));
  Tensor slope = wide_like(x);
  detail::binary(listed_binary<NormSlope>(), x, y, slope, OpParams(NormSlope::Params{p.p}));
  Tensor destination = gx.destination(0);
  detail::binary(listed_binary<Mul>(), slope, gy[0].reshape(y.shape()), destination);
}

}  // namespace binade::ops
