#include "core/ops/conv2d.h"

#include "core/step_context.h"

namespace binade::ops {
namespace {

constexpr const char* kName = "conv2d";

cpu::ConvShape geometry(const Shape& x, const Shape& w, const Shape& y, const Conv2d::Params& p) {
  return {.images = x[0],
          .height = x[1],
          .width = x[2],
          .channels = x[3],
          .out_height = y[1],
          .out_width = y[2],
          .filters = w[0],
          .filter_height = w[1],
          .filter_width = w[2],
          .stride = {p.stride.y, p.stride.x},
          .padding = {p.padding.y, p.padding.x},
          .dilation = {p.dilation.y, p.dilation.x},
          .groups = p.groups};
}

void check_params(const Conv2d::Params& p) {
  check<ArgumentError>(p.stride.y > 0 && p.stride.x > 0 && p.dilation.y > 0 && p.dilation.x > 0 && p.padding.y >= 0 &&
                           p.padding.x >= 0 && p.groups > 0,
                       "{}: wanted stride, dilation and groups >= 1 and padding >= 0, got {}, {}, {} and {}",
                       where(kName), p.stride.to_string(), p.dilation.to_string(), p.groups, p.padding.to_string());
}

}  // namespace

Shape Conv2d::output_shape(const Shape& x, const Shape& w, const Params& p) {
  check_params(p);
  check<ShapeError>(x.rank() == 4 && w.rank() == 4 && w[1] > 0 && w[2] > 0,
                    "{}: wanted x (N, H, W, C) and w (K, R, S, C / groups), got {} and {}", where(kName), x.to_string(),
                    w.to_string());
  check<ShapeError>(x[3] == w[3] * p.groups && w[0] % p.groups == 0,
                    "{}: wanted C = {} (w's {} channels x {} groups) and K a multiple of groups, got x {} and w {}",
                    where(kName), w[3] * p.groups, w[3], p.groups, x.to_string(), w.to_string());
  const std::int64_t height = x[1] + 2 * p.padding.y - p.dilation.y * (w[1] - 1) - 1;
  const std::int64_t width = x[2] + 2 * p.padding.x - p.dilation.x * (w[2] - 1) - 1;
  check<ShapeError>(
      height >= 0 && width >= 0,
      "{}: the filter {} with padding {} and dilation {} is larger than the image {}; enlarge the padding",
      where(kName), w.to_string(), p.padding.to_string(), p.dilation.to_string(), x.to_string());
  return {x[0], height / p.stride.y + 1, width / p.stride.x + 1, w[0]};
}

Tensors Conv2d::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check<ArgumentError>(in.size() == 3, "{}: wanted x, w and bias (which may be undefined), got {} inputs", where(kName),
                       in.size());
  const Tensor &x = in[0], &bias = in[2];
  const Tensor w = in[1].contiguous_copy();
  const Shape shape = output_shape(x.shape(), w.shape(), p);
  check<DTypeError>(x.dtype() == w.dtype() && is_floating(x.dtype()),
                    "{}: wanted x and w of one floating dtype, got {} and {}", where(kName), name_of(x.dtype()),
                    name_of(w.dtype()));
  check<ShapeError>(!bias.defined() || bias.shape() == Shape{w.dim(0)}, "{}: wanted bias ({}), got {}", where(kName),
                    w.dim(0), bias.defined() ? bias.shape().to_string() : "");
  const Tensor wide_bias = bias.defined() ? bias.to(x.dtype() == DType::f64 ? DType::f64 : DType::f32) : bias;
  Tensor y = Tensor::empty(shape, ctx.store_dtype, x.device());
  conv_slot()
      .on(x.device(), kName)
      .forward({.shape = geometry(x.shape(), w.shape(), shape, p),
                .in = x.dtype(),
                .out = y.dtype(),
                .source = x.raw(),
                .source_pitch = x.pitch(),
                .filter = w.raw(),
                .result = y.mutable_raw(),
                .result_pitch = y.pitch(),
                .bias = wide_bias.defined() ? wide_bias.raw() : nullptr});
  ctx.save(x);
  ctx.save(w);
  return {y};
}

void Conv2d::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Tensor& x = ctx.saved(0, kName);
  const Tensor& w = ctx.saved(1, kName);
  const Tensor g = gy[0].to(x.dtype());
  const cpu::ConvShape shape = geometry(x.shape(), w.shape(), g.shape(), p);
  if (gx.needs(0)) {
    Tensor to = gx.destination(0);
    conv_slot()
        .on(x.device(), kName)
        .data_gradient({.shape = shape,
                        .in = x.dtype(),
                        .out = to.dtype(),
                        .source = g.raw(),
                        .source_pitch = g.pitch(),
                        .filter = w.raw(),
                        .result = to.mutable_raw(),
                        .result_pitch = to.pitch()});
  }
  if (gx.needs(1)) filter_gradient(shape, x, g, gx.destination(1), kName);
  if (ctx.inputs[2].needs_grad && gx.needs(2)) bias_gradient(g, gx.destination(2), kName);
}

}  // namespace binade::ops
