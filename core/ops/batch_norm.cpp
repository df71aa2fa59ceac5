#include "binade/core/ops/batch_norm.h"

#include "binade/core/kernels/table.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

enum Input { kX, kWeight, kBias, kResidual, kRunningMean, kRunningVar };

void check_statistics(const OpInfo& info, std::span<const Tensor> in, bool training) {
  const Shape& shape = in[kX].shape();
  if (training) {
    check<ShapeError>(shape.rows() > 1 || shape.cols() == 0,
                      "{}: wanted more than one value per channel when training, got x of shape {}: a single value "
                      "minus its mean is 0, whatever it is; use a larger batch, or eval()",
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
  check<ShapeError>(in[kX].rank() >= 2, "{}: wanted x of shape (N, H, W, C) or (N, C), got {}", where(info.name),
                    in[kX].shape());
  const ChannelNormInputs inputs(info, ctx, in, p.eps);
  check_statistics(info, in, p.training);
  const Tensor& x = inputs.x;
  const Shape& shape = x.shape();
  const DType statistics = accumulate_dtype(x.dtype());
  Tensor y = p.into.empty(shape, x.dtype(), x.device());
  Tensor mean = p.training ? Tensor::empty(Shape{shape.cols()}, statistics, x.device())
                           : parameter_as(in[kRunningMean], statistics);
  Tensor var = p.training ? Tensor::empty(Shape{shape.cols()}, statistics, x.device())
                          : parameter_as(in[kRunningVar], statistics);
  Tensor rstd = Tensor::empty(Shape{shape.cols()}, statistics, x.device());

  BatchNormForward a;
  inputs.describe(a, y, mean, rstd);
  a.rows = shape.rows();
  a.training = p.training;
  a.relu = p.relu;
  a.eps = p.eps;
  a.var = var.mutable_raw();
  kernels(x.device()).batch_norm_forward(a);

  // In evaluation, `mean` is the running mean, which later steps change. Backward needs the values that forward read,
  // so they are copied.
  inputs.save(ctx, y, p.training || !ctx.grad_enabled ? mean : mean.clone(), rstd, p.relu);
  ctx.non_differentiable_outputs = 0b110;
  return {y, mean, var};
}

void BatchNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gy[0].defined()) return;
  const SavedChannelNorm saved(info, ctx);
  const Tensor& x = saved.x;
  const DType statistics = saved.rstd.dtype();
  BatchNormBackward a;
  saved.describe(a, gy[0]);
  a.rows = x.shape().rows();
  a.training = p.training;
  a.relu = p.relu;
  const bool has_residual = ctx.inputs[kResidual].shape == x.shape();
  InputGradient gw(gx, kWeight, statistics, saved.weight.defined());
  InputGradient gb(gx, kBias, statistics, saved.bias.defined());
  // The kernel's last pass reads each element of x before it writes that element of gx, so gx may overwrite x.
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
