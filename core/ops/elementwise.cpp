#include "binade/core/ops/elementwise.h"

#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/elementwise.h"
#include "binade/core/ops/broadcast_plan.h"
#include "binade/core/ops/lists.h"
#include "binade/core/ops/sum_to.h"
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

}  // namespace detail

namespace {

cpu::In in(const Tensor& t, std::int64_t offset) { return cpu::In{t.raw(), t.dtype()}.at(offset); }
cpu::Out out(Tensor& t, std::int64_t offset) { return cpu::Out{t.mutable_raw(), t.dtype()}.at(offset); }

template <class Op>
struct UnaryCpu {
  using Params = typename Op::Params;
  static const cpu::UnaryLoops<Op>& loops() { return cpu::kernels().pointwise.elementwise->unary; }

  static void forward(const Tensor& x, Tensor& y, const Params& p) {
    const BroadcastPlan plan(y.shape(), {&x, &y});
    plan.for_each(
        [&](const BroadcastPlan::Offsets& at, std::int64_t n) { loops().forward(in(x, at[0]), out(y, at[1]), n, p); });
  }
  static void backward(const Tensor& saved, const Tensor& gy, Tensor& gx, const Params& p) {
    const BroadcastPlan plan(gx.shape(), {&saved, &gy, &gx});
    plan.for_each([&](const BroadcastPlan::Offsets& at, std::int64_t n) {
      loops().backward(in(saved, at[0]), in(gy, at[1]), out(gx, at[2]), n, p);
    });
  }
};

template <class Op>
struct BinaryCpu {
  using Params = typename Op::Params;
  static const cpu::BinaryLoops<Op>& loops() { return cpu::kernels().pointwise.elementwise->binary; }

  static void forward(const Tensor& a, const Tensor& b, Tensor& y, const Params& p) {
    const BroadcastPlan plan(y.shape(), {&a, &b, &y});
    plan.for_each([&](const BroadcastPlan::Offsets& at, std::int64_t n) {
      loops().forward({in(a, at[0]), plan.step(0)}, {in(b, at[1]), plan.step(1)}, out(y, at[2]), n, p);
    });
  }
  static void backward(int which, const Tensor& a, const Tensor& b, const Tensor& gy, Tensor& g, const Params& p) {
    const BroadcastPlan plan(g.shape(), {&a, &b, &gy, &g});
    plan.for_each([&](const BroadcastPlan::Offsets& at, std::int64_t n) {
      loops().backward(which, {in(a, at[0]), plan.step(0)}, {in(b, at[1]), plan.step(1)}, in(gy, at[2]), out(g, at[3]),
                       n, p);
    });
  }
};

void select(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  const BroadcastPlan plan(y.shape(), {&condition, &a, &b, &y});
  plan.for_each([&](const BroadcastPlan::Offsets& at, std::int64_t n) {
    cpu::kernels().pointwise.elementwise->where({in(condition, at[0]), plan.step(0)}, {in(a, at[1]), plan.step(1)},
                                                {in(b, at[2]), plan.step(2)}, out(y, at[3]), n);
  });
}

}  // namespace

Tensors Where::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check<DTypeError>(size_of(in[0].dtype()) == 1, "{}: wanted a bool or u8 condition, got {}", binade::where(info.name),
                    name_of(in[0].dtype()));
  detail::check_floating(info, in.subspan(1));
  Tensor y = Tensor::empty(broadcast(broadcast(in[0].shape(), in[1].shape(), info.name), in[2].shape(), info.name),
                           ctx.store_dtype, in[1].device());
  kernels.on(y.device(), info.name).select(in[0], in[1], in[2], y);
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
    kernels.on(g.device(), info.name).select(condition, i == 1 ? gy[0] : zero, i == 1 ? zero : gy[0], g);
    if (!same) detail::sink_broadcast(ctx, gx, i, g);
  }
}

void register_elementwise_cpu() {
  for_each_op(UnaryOps{}, []<class Op>(OpTag<Op>) {
    unary_kernels<Op>.fill(DeviceType::kCpu, {&UnaryCpu<Op>::forward, &UnaryCpu<Op>::backward});
  });
  for_each_op(BinaryOps{}, []<class Op>(OpTag<Op>) {
    binary_kernels<Op>.fill(DeviceType::kCpu, {&BinaryCpu<Op>::forward, &BinaryCpu<Op>::backward});
  });
  Where::kernels.fill(DeviceType::kCpu, {&select});
}

}  // namespace binade::ops
