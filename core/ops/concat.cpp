#include "core/ops/concat.h"

#include "core/ops/input_gradient.h"
#include "core/ops/move.h"
#include "core/step_context.h"

namespace binade::ops {

Tensors Concat::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Shape& first = in[0].shape();
  const int axis = checked_axis(info, p.axis, first.rank());
  std::int64_t extent = 0;
  for (const Tensor& x : in) {
    check<ShapeError>(x.rank() == first.rank() && x.shape().with_dim(axis, first[axis]) == first,
                      "{}: wanted inputs that differ in dimension {} alone, got {} and {}", where(info.name), axis,
                      first, x.shape());
    extent += x.dim(axis);
  }
  Tensor y = Tensor::empty(first.with_dim(axis, extent), ctx.store_dtype, in[0].device());
  std::int64_t begin = 0;
  for (const Tensor& x : in) {
    copy_into(info, y, axis, begin, x.to(ctx.store_dtype));
    begin += x.dim(axis);
  }
  return {y};
}

void Concat::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const int axis = checked_axis(info, p.axis, gy[0].rank());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < ctx.inputs.size(); ++i) {
    const std::int64_t extent = ctx.inputs[i].shape[axis];
    InputGradient g(gx, static_cast<int>(i), gy[0].dtype());
    if (g.wanted()) copy_out(info, gy[0], axis, begin, g.tensor());
    g.finish();
    begin += extent;
  }
}

}  // namespace binade::ops
