#include "binade/core/ops/group_norm.h"

#include <algorithm>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/channel_parameter.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

enum Input { kX, kWeight, kBias, kResidual };

ChannelNorm describe(const Shape& shape, DType dtype, std::int64_t groups) {
  ChannelNorm a{.dtype = dtype, .samples = shape[0], .rows = 1, .cols = shape.cols(), .groups = groups};
  for (int d = 1; d + 1 < shape.rank(); ++d) a.rows *= shape[d];
  return a;
}

void check_arguments(const OpInfo& info, std::span<const Tensor> in, const GroupNorm::Params& p) {
  const Shape& shape = in[kX].shape();
  check<ArgumentError>(p.eps >= 0, "{}: wanted eps >= 0, got {}", where(info.name), p.eps);
  check<ShapeError>(shape.rank() >= 2, "{}: wanted x of shape (N, …, C), got {}", where(info.name), shape);
  check<ShapeError>(
      p.groups >= 1 && p.groups <= std::max<std::int64_t>(1, shape.cols()) && shape.cols() % p.groups == 0,
      "{}: wanted channels in {} equal groups, got {} channels", where(info.name), p.groups, shape.cols());
  check_channel_parameter(info, "weight", in[kWeight], shape.cols());
  check_channel_parameter(info, "bias", in[kBias], shape.cols());
  check<ShapeError>(!in[kResidual].defined() || in[kResidual].shape() == shape,
                    "{}: wanted a residual of x's shape {}, got {}", where(info.name), shape, in[kResidual].shape());
}

}  // namespace

Tensors GroupNorm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_arguments(info, in, p);
  const Tensor x = in[kX].to(ctx.store_dtype);
  const Tensor residual = in[kResidual].defined() ? in[kResidual].to(ctx.store_dtype) : Tensor();
  const DType statistics = accumulate_dtype(x.dtype());
  const Tensor weight = parameter_as(in[kWeight], statistics), bias = parameter_as(in[kBias], statistics);
  Tensor y = p.into.empty(x.shape(), x.dtype(), x.device());
  Tensor mean = Tensor::empty(Shape{x.dim(0), p.groups}, statistics, x.device());
  Tensor rstd = Tensor::empty(Shape{x.dim(0), p.groups}, statistics, x.device());
  GroupNormForward a{{describe(x.shape(), x.dtype(), p.groups)}};
  a.relu = p.relu;
  a.eps = p.eps;
  a.x = x.raw();
  a.x_pitch = x.pitch();
  a.residual = raw_or_null(residual);
  a.residual_pitch = residual.pitch();
  a.weight = raw_or_null(weight);
  a.bias = raw_or_null(bias);
  a.y = y.mutable_raw();
  a.y_pitch = y.pitch();
  a.mean = mean.mutable_raw();
  a.rstd = rstd.mutable_raw();
  if (x.numel() > 0) kernels(x.device()).group_norm_forward(a);
  ctx.save(x);
  ctx.save(mean);
  ctx.save(rstd);
  ctx.save(weight);
  ctx.save(bias);
  ctx.save(p.relu && residual.defined() ? y : Tensor());
  return {y};
}

void GroupNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Tensor& x = ctx.saved(0, info.name);
  const Tensor& mean = ctx.saved(1, info.name);
  const Tensor& rstd = ctx.saved(2, info.name);
  const Tensor& weight = ctx.saved(3, info.name);
  const Tensor& bias = ctx.saved(4, info.name);
  const Tensor& y = ctx.saved(5, info.name);
  GroupNormBackward a{{describe(x.shape(), x.dtype(), p.groups)}};
  a.relu = p.relu;
  a.x = x.raw();
  a.x_pitch = x.pitch();
  a.y = raw_or_null(y);
  a.y_pitch = y.pitch();
  a.gy = gy[0].raw();
  a.gy_pitch = gy[0].pitch();
  a.weight = raw_or_null(weight);
  a.bias = raw_or_null(bias);
  a.mean = mean.raw();
  a.rstd = rstd.raw();
  InputGradient g(gx, kX, x.dtype()), gw(gx, kWeight, rstd.dtype()), gb(gx, kBias, rstd.dtype());
  InputGradient gr(gx, kResidual, x.dtype(), p.relu);
  a.gx = g.raw();
  a.gresidual = gr.raw();
  a.gweight = gw.raw();
  a.gbias = gb.raw();
  if (x.numel() > 0) {
    kernels(x.device()).group_norm_backward(a);
  } else {
    for (InputGradient* sum : {&gw, &gb})
      if (sum->wanted()) sum->tensor().fill(0);
  }
  for (InputGradient* gradient : {&g, &gw, &gb, &gr}) gradient->finish();
  if (!p.relu && gx.needs(kResidual)) gx.set(kResidual, gy[0].to(ctx.inputs[kResidual].grad_dtype));
}

}  // namespace binade::ops
