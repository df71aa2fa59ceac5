#include "binade/core/ops/slice.h"

#include "binade/core/backend.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {

Tensors Slice::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  const Tensor& x = in[0];
  const int axis = checked_axis(info, p.axis, x.rank());
  check<ShapeError>(p.begin >= 0 && p.count >= 0 && p.begin <= x.dim(axis) - p.count,
                    "{}: wanted a range inside dimension {} of {}, got {} positions from {}", where(info.name), axis,
                    x.shape(), p.count, p.begin);
  if (axis == x.rank() - 1) return {x.channel_slice(p.begin, p.count)};
  if (axis == 0) return {x.narrow(p.begin, p.count)};
  Tensor y = Tensor::empty(x.shape().with_dim(axis, p.count), x.dtype(), x.device());
  copy_out(x, axis, p.begin, y);
  return {y};
}

void Slice::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const int axis = checked_axis(info, p.axis, ctx.inputs[0].shape.rank());
  InputGradient g(gx, 0, gy[0].dtype());
  if (!g.needed()) return;
  backend_of(gy[0].device()).fill_zero(g.raw(), g.tensor().bytes(), Stream{gy[0].device()});
  copy_into(g.tensor(), axis, p.begin, gy[0]);
  g.finish();
}

}  // namespace binade::ops
