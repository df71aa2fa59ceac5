#include "core/ops/group_norm.h"

#include "core/ops/parameter_gradient.h"
#include "core/step_context.h"

namespace binade::ops {
namespace {

GroupNormCall describe(const Shape& shape, DType dtype, const GroupNorm::Params& p) {
  GroupNormCall a{.dtype = dtype, .samples = shape[0], .cols = shape.cols(), .groups = p.groups, .eps = p.eps};
  a.rows = 1;
  for (int d = 1; d + 1 < shape.rank(); ++d) a.rows *= shape[d];
  return a;
}

}  // namespace

Tensors GroupNorm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check<ArgumentError>(in.size() == 3, "{}: wanted 3 inputs (x, weight, bias), got {}", where(info.name), in.size());
  check<ArgumentError>(p.eps >= 0, "{}: wanted eps >= 0, got {}", where(info.name), p.eps);
  const Shape& shape = in[0].shape();
  check<ShapeError>(shape.rank() >= 2, "{}: wanted x of shape (N, …, C), got {}", where(info.name), shape.to_string());
  check<ShapeError>(p.groups >= 1 && shape.cols() % p.groups == 0,
                    "{}: wanted channels in {} equal groups, got {} channels", where(info.name), p.groups,
                    shape.cols());
  check_channel_parameter(info, "weight", in[1], shape.cols());
  check_channel_parameter(info, "bias", in[2], shape.cols());
  const Tensor x = in[0].to(ctx.store_dtype);
  const DType statistics = statistics_dtype(x.dtype());
  const Tensor weight = parameter_as(in[1], statistics), bias = parameter_as(in[2], statistics);
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  Tensor mean = Tensor::empty(Shape{shape[0], p.groups}, statistics, x.device());
  Tensor rstd = Tensor::empty(Shape{shape[0], p.groups}, statistics, x.device());
  GroupNormCall a = describe(shape, x.dtype(), p);
  a.x = x.raw();
  a.x_pitch = x.pitch();
  a.weight = raw_or_null(weight);
  a.bias = raw_or_null(bias);
  a.mean = mean.mutable_raw();
  a.rstd = rstd.mutable_raw();
  a.y = y.mutable_raw();
  if (x.numel() > 0) group_norm_slot().on(x.device(), info.name).forward(a);
  ctx.save(x);
  ctx.save(mean);
  ctx.save(rstd);
  ctx.save(weight);
  return {y};
}

void GroupNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Tensor& x = ctx.saved(0, info.name);
  const Tensor& mean = ctx.saved(1, info.name);
  const Tensor& rstd = ctx.saved(2, info.name);
  const Tensor& weight = ctx.saved(3, info.name);
  GroupNormCall a = describe(x.shape(), x.dtype(), p);
  a.x = x.raw();
  a.x_pitch = x.pitch();
  a.weight = raw_or_null(weight);
  a.mean = const_cast<void*>(mean.raw());
  a.rstd = const_cast<void*>(rstd.raw());
  a.gy = gy[0].raw();
  ParameterGradient g(gx, 0, x.dtype()), gw(gx, 1, rstd.dtype()), gb(gx, 2, rstd.dtype());
  a.gx = g.raw();
  a.gweight = gw.raw();
  a.gbias = gb.raw();
  group_norm_slot().on(x.device(), info.name).backward(a);
  for (ParameterGradient* gradient : {&g, &gw, &gb}) gradient->finish();
}

KernelSlot<GroupNormKernels>& group_norm_slot() {
  static KernelSlot<GroupNormKernels> slot;
  return slot;
}

}  // namespace binade::ops
