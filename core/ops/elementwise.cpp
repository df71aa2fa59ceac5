#include "binade/core/ops/elementwise.h"

#include <array>

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/broadcast_plan.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/where.h"

namespace binade::ops {

namespace detail {

void check_floating(const OpInfo& info, std::span<const Tensor> in) {
  for (const Tensor& x : in)
    check<DTypeError>(is_floating(x.dtype()),
                      "{}: wanted a floating dtype (f32, f16, bf16, f64), got {}; cast it first", where(info.name),
                      name_of(x.dtype()));
}

void sink_broadcast(const OpContext& ctx, GradSink& gx, int i, const Tensor& g) {
  const OpContext::Input& input = ctx.inputs[static_cast<std::size_t>(i)];
  if (input.shape == g.shape() && input.grad_dtype == g.dtype()) return gx.set(i, g);
  Tensor destination = gx.destination(i);
  if (input.shape == g.shape())
    destination.copy_from(g);
  else
    sum_to(g, destination);
}

void unary(Listed op, const Tensor& x, Tensor& y, const OpParams& p) {
  const KernelTable& table = kernels(y.device());
  (op.rare ? table.rare_unary : table.unary)({.op = op.position,
                                              .walk = broadcast_walk(y.shape(), {&x, &y}),
                                              .in = {input(x)},
                                              .out = output(y),
                                              .params = p});
}
void unary_backward(Listed op, const Tensor& saved, const Tensor& gy, Tensor& gx, const OpParams& p) {
  const KernelTable& table = kernels(gx.device());
  (op.rare ? table.rare_unary : table.unary)({.op = op.position,
                                              .backward = true,
                                              .walk = broadcast_walk(gx.shape(), {&saved, &gy, &gx}),
                                              .in = {input(saved), input(gy)},
                                              .out = output(gx),
                                              .params = p});
}

void binary(Listed op, const Tensor& a, const Tensor& b, Tensor& y, const OpParams& p) {
  const KernelTable& table = kernels(y.device());
  (op.rare ? table.rare_binary : table.binary)({.op = op.position,
                                                .walk = broadcast_walk(y.shape(), {&a, &b, &y}),
                                                .in = {input(a), input(b)},
                                                .out = output(y),
                                                .params = p});
}
void binary_backward(Listed op, int which, const Tensor& a, const Tensor& b, const Tensor& gy, Tensor& g,
                     const OpParams& p) {
  const KernelTable& table = kernels(g.device());
  (op.rare ? table.rare_binary : table.binary)({.op = op.position,
                                                .direction = which + 1,
                                                .walk = broadcast_walk(g.shape(), {&a, &b, &gy, &g}),
                                                .in = {input(a), input(b), input(gy)},
                                                .out = output(g),
                                                .params = p});
}

Tensor exact(const OpInfo& info, int op, std::span<const Tensor> in, DType result) {
  const Tensor &a = in.front(), &b = in.back();
  const Shape shape = broadcast(a.shape(), b.shape(), info.name);
  Tensor y = Tensor::empty(shape, result, a.device());
  kernels(y.device())
      .exact({.op = op,
              .whole = !is_floating(a.dtype()) && !is_floating(b.dtype()),
              .walk = broadcast_walk(shape, {&a, &b, &y}),
              .in = {input(a), input(b)},
              .out = output(y)});
  return y;
}

void check_divisor(const OpInfo& info, const Tensor& divisor) {
  if (divisor.numel() == 0) return;
  const Tensor any[] = {divisor.contiguous_copy()};
  Tensor smallest = Tensor::empty(Shape{}, DType::boolean, divisor.device());
  const Tensor flags = exact(info, position_in<exact::NotEqual>(ExactOps{}),
                             std::array{any[0], Tensor::zeros(Shape{}, divisor.dtype(), divisor.device())},
                             DType::boolean);
  kernels(divisor.device())
      .fold({.kind = FoldKind::kMin, .x = input(flags), .y = output(smallest), .count = flags.numel()});
  check<ArgumentError>(smallest.item() != 0,
                       "{}: wanted divisors other than 0, got a 0 in {} {}; divide as f32 to get inf",
                       binade::where(info.name), name_of(divisor.dtype()), divisor.shape());
}

void refuse_bool(const OpInfo& info) {
  throw DTypeError(fmt::format("{}: wanted numbers, got bool; use logical_xor or logical_not, or cast to i32 first",
                               binade::where(info.name)));
}

}  // namespace detail

namespace {

void select(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  kernels(y.device())
      .where({.walk = broadcast_walk(y.shape(), {&condition, &a, &b, &y}),
              .in = {input(condition), input(a), input(b)},
              .out = output(y)});
}

}  // namespace

Tensors Where::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check<DTypeError>(size_of(in[0].dtype()) == 1, "{}: wanted a bool or u8 condition, got {}", binade::where(info.name),
                    name_of(in[0].dtype()));
  check<DTypeError>(is_floating(in[1].dtype()) || is_floating(in[2].dtype()),
                    "{}: wanted a floating operand, got {} and {}", binade::where(info.name), name_of(in[1].dtype()),
                    name_of(in[2].dtype()));
  Tensor y = Tensor::empty(broadcast(broadcast(in[0].shape(), in[1].shape(), info.name), in[2].shape(), info.name),
                           ctx.store_dtype, in[1].device());
  select(in[0], in[1], in[2], y);
  ctx.save(in[0]);
  return {y};
}

void Where::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  const Tensor& condition = ctx.saved(0, info.name);
  const Tensor zero = Tensor::zeros(Shape{}, gy[0].dtype(), gy[0].device());
  for (int i = 1; i <= 2; ++i) {
    if (!gx.needs(i)) continue;
    const OpContext::Input& input = ctx.inputs[static_cast<std::size_t>(i)];
    const bool same = input.shape == gy[0].shape();
    Tensor g = same ? gx.destination(i) : Tensor::empty(gy[0].shape(), accumulate_dtype(input.dtype), gy[0].device());
    select(condition, i == 1 ? gy[0] : zero, i == 1 ? zero : gy[0], g);
    if (!same) detail::sink_broadcast(ctx, gx, i, g);
  }
}

}  // namespace binade::ops
