#include "binade/core/ops/cast.h"

namespace binade::ops {

Tensors Cast::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  if (!is_floating(in[0].dtype()) || !is_floating(p.to)) ctx.non_differentiable_outputs = 1;
  return {in[0].to(p.to)};
}

void Cast::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  if (gy[0].dtype() == ctx.inputs[0].grad_dtype)
    gx.set(0, gy[0]);
  else
    gx.destination(0).copy_from(gy[0]);
}

}  // namespace binade::ops
