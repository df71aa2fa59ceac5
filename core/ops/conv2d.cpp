#include "binade/core/ops/conv2d.h"

#include "binade/core/step_context.h"

namespace binade::ops {
Shape Conv2d::output_shape(const Shape& x, const Shape& w, const Params& p) {
  check_windows(info, p.stride, p.padding, p.dilation, p.groups);
  check_window_shapes(info, x, w, "x (N, H, W, C) and w (K, R, S, C / groups)");
  check<ShapeError>(
      x[3] == w[3] * p.groups && w[0] % p.groups == 0,
      "{}: wanted C = {} (w's {} channels x {} groups) and K a multiple of groups, got x {} and w {}; channels "
      "are the last dimension",
      where(info.name), w[3] * p.groups, w[3], p.groups, x, w);
  const std::int64_t height = x[1] + 2 * p.padding.y - p.dilation.y * (w[1] - 1) - 1;
  const std::int64_t width = x[2] + 2 * p.padding.x - p.dilation.x * (w[2] - 1) - 1;
  check<ShapeError>(
      height >= 0 && width >= 0,
      "{}: the filter {} with padding {} and dilation {} is larger than the image {}; enlarge the padding",
      where(info.name), w, p.padding, p.dilation, x);
  return {x[0], height / p.stride.y + 1, width / p.stride.x + 1, w[0]};
}

Tensors Conv2d::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Shape &x = in[0].shape(), &w = in[1].shape();
  const Shape y = output_shape(x, w, p);
  return convolve(info, ctx, in, y, conv_shape(x, w, y, p), false);
}

void Conv2d::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const ConvShape shape = conv_shape(ctx.inputs[0].shape, ctx.inputs[1].shape, gy[0].shape(), p);
  convolve_backward(info, ctx, gy[0], gx, shape, false);
}

}  // namespace binade::ops
