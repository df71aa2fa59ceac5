#include "binade/core/ops/cast.h"

#include "binade/core/step_context.h"

namespace binade::ops {

Tensors Cast::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  check<DTypeError>(is_floating(in[0].dtype()) && is_floating(p.to), "{}: wanted floating dtypes, got {} to {}",
                    where(info.name), name_of(in[0].dtype()), name_of(p.to));
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
