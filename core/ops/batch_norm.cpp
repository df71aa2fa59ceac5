#include "binade/core/ops/batch_norm.h"

#include "binade/core/kernels/table.h"
#include "binade/core/ops/channel_parameter.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

enum Input { kX, kWeight, kBias, kResidual, kRunningMean, kRunningVar, kInputs };

void check_inputs(const OpInfo& info, std::span<const Tensor> in, const BatchNorm::Params& p) {
  const Shape& shape = in[kX].shape();
  check<ShapeError>(shape.rank() >= 2, "{}: wanted x of shape (N, H, W, C) or (N, C), got {}", where(info.name), shape);
  check<ArgumentError>(p.eps >= 0, "{}: wanted eps >= 0, got {}", where(info.name), p.eps);
  check_channel_parameter(info, "weight", in[kWeight], shape.cols());
  check_channel_parameter(info, "bias", in[kBias], shape.cols());
  check<ShapeError>(!in[kResidual].defined() || in[kResidual].shape() == shape,
                    "{}: wanted a residual of x's shape {}, got {}", where(info.name), shape, in[kResidual].shape());
  if (p.training) {
    check<ShapeError>(shape.rows() > 0 || shape.cols() == 0,
                      "{}: wanted at least one value per channel when training, got x of shape {}; use eval()",
                      where(info.name), shape);
    return;
  }
  check<ArgumentError>(in[kRunningMean].defined() && in[kRunningVar].defined(),
                       "{}: wanted running_mean and running_var when not training", where(info.name));
  check_channel_parameter(info, "running_mean", in[kRunningMean], shape.cols());
  check_channel_parameter(info, "running_var", in[kRunningVar], shape.cols());
}

}  // namespace

Tensors BatchNorm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_inputs(info, in, p);
  const Tensor x = in[kX].to(ctx.store_dtype);
  const Tensor residual = in[kResidual].defined() ? in[kResidual].to(ctx.store_dtype) : Tensor();
  const Shape& shape = x.shape();
  const DType statistics = accumulate_dtype(x.dtype());
  const Tensor weight = parameter_as(in[kWeight], statistics), bias = parameter_as(in[kBias], statistics);
  Tensor y = p.into.empty(shape, x.dtype(), x.device());
  Tensor mean = p.training ? Tensor::empty(Shape{shape.cols()}, statistics, x.device())
                           : parameter_as(in[kRunningMean], statistics);
  Tensor var = p.training ? Tensor::empty(Shape{shape.cols()}, statistics, x.device())
                          : parameter_as(in[kRunningVar], statistics);
  Tensor rstd = Tensor::empty(Shape{shape.cols()}, statistics, x.device());

  BatchNormForward a;
  a.dtype = x.dtype();
  a.rows = shape.rows();
  a.cols = shape.cols();
  a.training = p.training;
  a.relu = p.relu;
  a.eps = p.eps;
  a.x = x.raw();
  a.x_pitch = x.pitch();
  a.residual = raw_or_null(residual);
  a.residual_pitch = residual.defined() ? residual.pitch() : 0;
  a.weight = raw_or_null(weight);
  a.bias = raw_or_null(bias);
  a.y = y.mutable_raw();
  a.y_pitch = y.pitch();
  a.mean = mean.mutable_raw();
  a.var = var.mutable_raw();
  a.rstd = rstd.mutable_raw();
  kernels(x.device()).batch_norm_forward(a);

  ctx.save(x);
  // Running statistics move on after this step's forward: backward needs the values that were read.
  ctx.save(p.training || !ctx.grad_enabled ? mean : mean.clone());
  ctx.save(rstd);
  ctx.save(weight);
  ctx.save(bias);
  ctx.save(p.relu && residual.defined() ? y : Tensor());
  ctx.non_differentiable_outputs = 0b110;
  return {y, mean, var};
}

void BatchNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gy[0].defined()) return;
  const Tensor& x = ctx.saved(0, info.name);
  const Tensor& mean = ctx.saved(1, info.name);
  const Tensor& rstd = ctx.saved(2, info.name);
  const Tensor& weight = ctx.saved(3, info.name);
  const Tensor& bias = ctx.saved(4, info.name);
  const Tensor& y = ctx.saved(5, info.name);

  BatchNormBackward a;
  a.dtype = x.dtype();
  a.rows = x.shape().rows();
  a.cols = x.shape().cols();
  a.training = p.training;
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
  const bool has_residual = ctx.inputs[kResidual].shape == x.shape();
  InputGradient gw(gx, kWeight, rstd.dtype(), weight.defined()), gb(gx, kBias, rstd.dtype(), bias.defined());
  // The last pass reads an element of x and writes that of gx: one may lie over the other.
  InputGradient g(gx, kX, x.dtype(), true, 0), gr(gx, kResidual, x.dtype(), has_residual && p.relu);
  a.gweight = gw.raw();
  a.gbias = gb.raw();
  a.gx = g.raw();
  a.gresidual = gr.raw();
  kernels(x.device()).batch_norm_backward(a);
  for (InputGradient* gradient : {&gw, &gb, &g, &gr}) gradient->finish();
  if (has_residual && !p.relu && gx.needs(kResidual)) gx.set(kResidual, gy[0].to(ctx.inputs[kResidual].grad_dtype));
}

}  // namespace binade::ops
