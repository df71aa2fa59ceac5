#include "binade/core/ops/norms.h"

#include "binade/core/step_context.h"

namespace binade::ops {

void check_channel_parameter(const OpInfo& info, const char* name, const Tensor& p, std::int64_t cols) {
  if (!p.defined()) return;
  check<ShapeError>(p.shape() == Shape{cols}, "{}: wanted a {} of shape ({}), one value per channel, got {}",
                    where(info.name), name, cols, p.shape());
  check<DTypeError>(is_floating(p.dtype()), "{}: wanted a floating {}, got {}", where(info.name), name,
                    name_of(p.dtype()));
}

ChannelNormInputs::ChannelNormInputs(const OpInfo& info, const OpContext& ctx, std::span<const Tensor> in, double eps) {
  const Shape& shape = in[0].shape();
  check<ArgumentError>(eps >= 0, "{}: wanted eps >= 0, got {}", where(info.name), eps);
  check_channel_parameter(info, "weight", in[1], shape.cols());
  check_channel_parameter(info, "bias", in[2], shape.cols());
  check<ShapeError>(!in[3].defined() || in[3].shape() == shape, "{}: wanted a residual of x's shape {}, got {}",
                    where(info.name), shape, in[3].shape());
  x = in[0].to(ctx.store_dtype);
  if (in[3].defined()) residual = in[3].to(ctx.store_dtype);
  weight = parameter_as(in[1], accumulate_dtype(x.dtype()));
  bias = parameter_as(in[2], accumulate_dtype(x.dtype()));
}

void ChannelNormInputs::describe(ChannelNormForward& a, Tensor& y, Tensor& mean, Tensor& rstd) const {
  a.dtype = x.dtype();
  a.cols = x.shape().cols();
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
}

void ChannelNormInputs::save(OpContext& ctx, const Tensor& y, const Tensor& mean, const Tensor& rstd, bool relu) const {
  for (const Tensor* saved : {&x, &mean, &rstd, &weight, &bias}) ctx.save(*saved);
  ctx.save(relu && residual.defined() ? y : Tensor());
}

SavedChannelNorm::SavedChannelNorm(const OpInfo& info, const OpContext& ctx)
    : x(ctx.saved(0, info.name)),
      mean(ctx.saved(1, info.name)),
      rstd(ctx.saved(2, info.name)),
      weight(ctx.saved(3, info.name)),
      bias(ctx.saved(4, info.name)),
      y(ctx.saved(5, info.name)) {}

void SavedChannelNorm::describe(ChannelNormBackward& a, const Tensor& gy) const {
  a.dtype = x.dtype();
  a.cols = x.shape().cols();
  a.x = x.raw();
  a.x_pitch = x.pitch();
  a.y = raw_or_null(y);
  a.y_pitch = y.pitch();
  a.gy = gy.raw();
  a.gy_pitch = gy.pitch();
  a.weight = raw_or_null(weight);
  a.bias = raw_or_null(bias);
  a.mean = mean.raw();
  a.rstd = rstd.raw();
}

}  // namespace binade::ops
