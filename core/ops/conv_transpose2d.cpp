#include "binade/core/ops/conv_transpose2d.h"

#include <algorithm>

#include "binade/core/step_context.h"

namespace binade::ops {

Shape ConvTranspose2d::output_shape(const Shape& x, const Shape& w, const Params& p) {
  check_windows(info, p.stride, p.padding, p.dilation, p.groups);
  check<ArgumentError>(p.output_padding.y >= 0 && p.output_padding.x >= 0 &&
                           p.output_padding.y < std::max(p.stride.y, p.dilation.y) &&
                           p.output_padding.x < std::max(p.stride.x, p.dilation.x),
                       "{}: wanted output_padding in [0, max(stride, dilation)), got {}", where(info.name),
                       p.output_padding);
  check_window_shapes(info, x, w, "x (N, H, W, C) and w (C, R, S, K / groups)");
  check<ShapeError>(x[3] == w[0] && x[3] % p.groups == 0,
                    "{}: wanted C = {} as in w, and a multiple of {} groups, got x {} and w {}", where(info.name), w[0],
                    p.groups, x, w);
  const std::int64_t height = (x[1] - 1) * p.stride.y - 2 * p.padding.y + p.dilation.y * (w[1] - 1) +
                              p.output_padding.y + 1;
  const std::int64_t width = (x[2] - 1) * p.stride.x - 2 * p.padding.x + p.dilation.x * (w[2] - 1) +
                             p.output_padding.x + 1;
  check<ShapeError>(height > 0 && width > 0, "{}: padding {} leaves nothing of the image {}; make it smaller",
                    where(info.name), p.padding, x);
  return {x[0], height, width, w[3] * p.groups};
}

// Both passes are those of the convolution that leads from y to x.

Tensors ConvTranspose2d::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Shape &x = in[0].shape(), &w = in[1].shape();
  const Shape y = output_shape(x, w, p);
  return convolve(info, ctx, in, y, conv_shape(y, w, x, p), true, p.into);
}

void ConvTranspose2d::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const ConvShape shape = conv_shape(gy[0].shape(), ctx.inputs[1].shape, ctx.inputs[0].shape, p);
  convolve_backward(info, ctx, gy[0], gx, shape, true);
}

}  // namespace binade::ops
