#pragma once

#include "binade/autograd/apply.h"
#include "binade/autograd/derivative.h"
#include "binade/core/ops/unary.h"

namespace binade::derivatives {

/// The gradient gx = gradient(saved, gy) of an elementwise op that is piecewise linear: its factor depends on the saved
/// tensor, but the derivative of the factor is 0. So this op, as a function of gy, is its own derivative.
template <class Op>
struct ConstantSlope {
  using Params = typename Op::Params;
  static constexpr OpInfo info{.name = Op::info.name,
                               .inputs = "gy, saved",
                               .numerics = ops::kRoundedOnce,
                               .policy_inputs = 0b01,
                               .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    ctx.save(in[1]);
    return {multiplied(in[1], in[0], Tensor::empty(in[0].shape(), ctx.store_dtype, in[0].device()), p)};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (gx.needs(0)) multiplied(ctx.saved(0, info.name), gy[0], gx.destination(0), p);
  }
  static Variables derivative(const RecordedCall& call) {
    return {apply_one<ConstantSlope>(call.params<ConstantSlope>(), {call.gy(), call.saved(0)}), {}};
  }

 private:
  static Tensor multiplied(const Tensor& saved, const Tensor& gy, Tensor gx, const Params& p) {
    ops::detail::unary_backward(ops::listed_unary<Op>(), saved, gy, gx, OpParams(p));
    return gx;
  }
};

}  // namespace binade::derivatives
