#include "binade/core/ops/group_norm.h"

#include <algorithm>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

enum Input { kX, kWeight, kBias, kResidual };

/// Sets the fields of the kernel arguments that depend on the shape of x and the number of groups.
void describe(ChannelNorm& a, const Shape& shape, std::int64_t groups) {
  a.samples = shape[0];
  a.groups = groups;
  a.rows = 1;
  for (int d = 1; d + 1 < shape.rank(); ++d) a.rows *= shape[d];
}

}  // namespace

Tensors GroupNorm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Shape& shape = in[kX].shape();
  check<ShapeError>(shape.rank() >= 2, "{}: wanted x of shape (N, …, C), got {}", where(info.name), shape);
  check<ShapeError>(
      p.groups >= 1 && p.groups <= std::max<std::int64_t>(1, shape.cols()) && shape.cols() % p.groups == 0,
      "{}: wanted channels in {} equal groups, got {} channels", where(info.name), p.groups, shape.cols());
  const ChannelNormInputs inputs(info, ctx, in, p.eps);
  const Tensor& x = inputs.x;
  const DType statistics = accumulate_dtype(x.dtype());
  Tensor y = p.into.empty(x.shape(), x.dtype(), x.device());
  Tensor mean = Tensor::empty(Shape{x.dim(0), p.groups}, statistics, x.device());
  Tensor rstd = Tensor::empty(Shape{x.dim(0), p.groups}, statistics, x.device());
  GroupNormForward a;
  inputs.describe(a, y, mean, rstd);
  describe(a, x.shape(), p.groups);
  a.relu = p.relu;
  a.eps = p.eps;
  if (x.numel() > 0) kernels(x.device()).group_norm_forward(a);
  inputs.save(ctx, y, mean, rstd, p.relu);
  return {y};
}

void GroupNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const SavedChannelNorm saved(info, ctx);
  const Tensor& x = saved.x;
  const DType statistics = saved.rstd.dtype();
  GroupNormBackward a;
  saved.describe(a, gy[0]);
  describe(a, x.shape(), p.groups);
  a.relu = p.relu;
  InputGradient g(gx, kX, x.dtype()), gw(gx, kWeight, statistics), gb(gx, kBias, statistics);
  InputGradient gr(gx, kResidual, x.dtype(), p.relu);
  a.gx = g.raw();
  a.gresidual = gr.raw();
  a.gweight = gw.raw();
  a.gbias = gb.raw();
  if (x.numel() > 0) {
    kernels(x.device()).group_norm_backward(a);
  } else {
    for (InputGradient* sum : {&gw, &gb})
      if (sum->needed()) sum->tensor().fill(0);
  }
  for (InputGradient* gradient : {&g, &gw, &gb, &gr}) gradient->finish();
  if (!p.relu && gx.needs(kResidual)) gx.set(kResidual, gy[0].to(ctx.inputs[kResidual].grad_dtype));
}

}  // namespace binade::ops
