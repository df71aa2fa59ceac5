#include "binade/core/ops/elementwise.h"

#include "binade/core/ops/where.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"
#include "binade/cuda/slots/op_list.h"
#include "binade/cuda/slots/walk.h"

namespace binade::cuda {
namespace {

template <class Op>
struct Unary {
  using Params = typename Op::Params;
  static constexpr int kOp = position_in<Op>(ops::UnaryOps{});

  static void forward(const Tensor& x, Tensor& y, const Params& p) {
    UnaryCall call{
        .op = kOp, .walk = walk_of(ops::BroadcastPlan(y.shape(), {&x, &y}), 2), .in = {source(x)}, .out = target(y)};
    put_params(call.params, p);
    run(Call::kUnary, call, Op::info.name);
  }
  static void backward(const Tensor& saved, const Tensor& gy, Tensor& gx, const Params& p) {
    UnaryCall call{.op = kOp,
                   .backward = true,
                   .walk = walk_of(ops::BroadcastPlan(gx.shape(), {&saved, &gy, &gx}), 3),
                   .in = {source(saved), source(gy)},
                   .out = target(gx)};
    put_params(call.params, p);
    run(Call::kUnary, call, Op::info.name);
  }
};

template <class Op>
struct Binary {
  using Params = typename Op::Params;
  static constexpr int kOp = position_in<Op>(ops::BinaryOps{});

  static void forward(const Tensor& a, const Tensor& b, Tensor& y, const Params& p) {
    BinaryCall call{.op = kOp,
                    .walk = walk_of(ops::BroadcastPlan(y.shape(), {&a, &b, &y}), 3),
                    .in = {source(a), source(b)},
                    .out = target(y)};
    put_params(call.params, p);
    run(Call::kBinary, call, Op::info.name);
  }
  static void backward(int which, const Tensor& a, const Tensor& b, const Tensor& gy, Tensor& g, const Params& p) {
    BinaryCall call{.op = kOp,
                    .direction = which + 1,
                    .walk = walk_of(ops::BroadcastPlan(g.shape(), {&a, &b, &gy, &g}), 4),
                    .in = {source(a), source(b), source(gy)},
                    .out = target(g)};
    put_params(call.params, p);
    run(Call::kBinary, call, Op::info.name);
  }
};

void select(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
  const WhereCall call{.walk = walk_of(ops::BroadcastPlan(y.shape(), {&condition, &a, &b, &y}), 4),
                       .in = {source(condition), source(a), source(b)},
                       .out = target(y)};
  run(Call::kWhere, call, ops::Where::info.name);
}

}  // namespace

void register_elementwise() {
  ops::for_each_op(ops::UnaryOps{}, []<class Op>(ops::OpTag<Op>) {
    ops::unary_kernels<Op>.fill(DeviceType::kCuda, {&Unary<Op>::forward, &Unary<Op>::backward});
  });
  ops::for_each_op(ops::BinaryOps{}, []<class Op>(ops::OpTag<Op>) {
    ops::binary_kernels<Op>.fill(DeviceType::kCuda, {&Binary<Op>::forward, &Binary<Op>::backward});
  });
  ops::Where::kernels.fill(DeviceType::kCuda, {&select});
}

}  // namespace binade::cuda
