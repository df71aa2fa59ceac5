#include "binade/core/ops/cumulate.h"

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

int axis_in(const char* op, int axis, int rank) { return checked_axis(op, axis, rank > 0 ? rank : 1); }

void cumulate(const Tensor& x, int axis, Cumulation how, bool reverse, Tensor& y) {
  const AxisView v(x.shape(), axis);
  kernels(x.device())
      .cumulate({.how = how,
                 .reverse = reverse,
                 .outer = v.outer,
                 .count = v.extent,
                 .inner = v.inner,
                 .x = input(x),
                 .y = output(y)});
}

}  // namespace

Tensors Cumulate::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const int axis = axis_in(p.name, p.axis, in[0].rank());
  const bool floating = is_floating(in[0].dtype());
  check<DTypeError>(floating || p.how != Cumulation::kLogSumExp, "{}: wanted a floating dtype, got {}", where(p.name),
                    name_of(in[0].dtype()));
  const Tensor x = in[0].to(floating ? ctx.store_dtype : DType::i64).contiguous_copy();
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  cumulate(x, axis, p.how, p.reverse, y);
  if (p.how != Cumulation::kSum) {
    ctx.save(x);
    ctx.save(y);
  }
  return {y};
}

void Cumulate::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  InputGradient g(gx, 0, gy[0].dtype());
  if (!g.needed()) return;
  const int axis = axis_in(p.name, p.axis, gy[0].rank());
  if (p.how == Cumulation::kSum) {
    cumulate(gy[0], axis, p.how, !p.reverse, g.tensor());
    return g.finish();
  }
  const Tensor x = ctx.saved(0, info.name).to(gy[0].dtype()), y = ctx.saved(1, info.name).to(gy[0].dtype());
  const AxisView v(x.shape(), axis);
  kernels(x.device())
      .cumulate_gradient({.how = p.how,
                          .outer = v.outer,
                          .count = v.extent,
                          .inner = v.inner,
                          .x = input(x),
                          .y = input(y),
                          .gy = input(gy[0]),
                          .gx = output(g.tensor())});
  g.finish();
}

Tensors CumulativeExtreme::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  const char* const name = p.largest ? "cummax" : "cummin";
  const int axis = axis_in(name, p.axis, in[0].rank());
  const Tensor x = in[0].to(is_half(in[0].dtype()) ? DType::f32 : in[0].dtype()).contiguous_copy();
  Tensor index = Tensor::empty(x.shape(), DType::i64, x.device());
  const AxisView v(x.shape(), axis);
  kernels(x.device())
      .cumulative_extreme({.largest = p.largest,
                           .outer = v.outer,
                           .count = v.extent,
                           .inner = v.inner,
                           .x = input(x),
                           .index = index.mutable_data<std::int64_t>()});
  return {index};
}

}  // namespace binade::ops
