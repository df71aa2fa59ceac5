#include "binade/core/ops/concat.h"

#include <algorithm>

#include "binade/core/ops/input_gradient.h"
#include "binade/core/ops/move.h"
#include "binade/core/ops/output_view.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// Returns the inputs as one tensor without copying if their channels are adjacent in one storage and all have aligned
/// rows. Otherwise returns an undefined tensor.
Tensor joined(std::span<const Tensor> in, DType dtype) {
  Tensor all = in[0];
  for (const Tensor& next : in.subspan(1))
    if (all.defined()) all = all.joined_with(next);
  return in.size() > 1 && all.defined() && all.dtype() == dtype && has_aligned_rows(all) ? all : Tensor();
}

}  // namespace

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
  if (axis == first.rank() - 1)
    if (Tensor all = joined(in, ctx.store_dtype); all.defined()) return {std::move(all)};
  Tensor y = Tensor::empty(first.with_dim(axis, extent), ctx.store_dtype, in[0].device());
  std::int64_t begin = 0;
  for (const Tensor& x : in) {
    copy_into(y, axis, begin, x.to(ctx.store_dtype));
    begin += x.dim(axis);
  }
  return {y};
}

void Concat::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const int axis = checked_axis(info, p.axis, gy[0].rank());
  std::int64_t begin = 0;
  for (int i = 0; i < static_cast<int>(ctx.inputs.size()); ++i) {
    const OpContext::Input& input = ctx.inputs[static_cast<std::size_t>(i)];
    const std::int64_t extent = input.shape[axis];
    const Tensor slice = axis == gy[0].rank() - 1 ? gy[0].channel_slice(begin, extent) : Tensor();
    if (gx.needs(i) && slice.defined() && has_aligned_rows(slice)) {
      gx.set_slice(i, slice.to(input.grad_dtype));
    } else if (InputGradient g(gx, i, gy[0].dtype()); g.needed()) {
      copy_out(gy[0], axis, begin, g.tensor());
      g.finish();
    }
    begin += extent;
  }
}

}  // namespace binade::ops
