#include "binade/core/ops/convolutions.h"

#include <algorithm>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/conv2d.h"
#include "binade/core/ops/conv_transpose2d.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/ops/products.h"
#include "binade/core/step_context.h"

namespace binade::ops {

void check_windows(const OpInfo& info, Extent2 stride, Extent2 padding, Extent2 dilation, std::int64_t groups) {
  const auto within = [](std::int64_t x, std::int64_t least) { return x >= least && x <= kMaxExtent; };
  check<ArgumentError>(within(stride.y, 1) && within(stride.x, 1) && within(dilation.y, 1) && within(dilation.x, 1) &&
                           within(padding.y, 0) && within(padding.x, 0) && within(groups, 1),
                       "{}: wanted stride, dilation and groups >= 1 and padding >= 0, all up to 2^30, got {}, {}, {} "
                       "and {}",
                       where(info.name), stride, dilation, groups, padding);
}

void check_window_shapes(const OpInfo& info, const Shape& image, const Shape& w, std::string_view wanted) {
  check<ShapeError>(image.rank() == 4 && w.rank() == 4 && w[1] > 0 && w[2] > 0, "{}: wanted {}, got {} and {}",
                    where(info.name), wanted, image, w);
  for (int d = 0; d < 4; ++d)
    check<ShapeError>(image[d] <= kMaxExtent && w[d] <= kMaxExtent, "{}: wanted extents up to 2^30, got {} and {}",
                      where(info.name), image, w);
}

namespace {

/// Computes `result` from `source`: the convolution that `shape` describes or, if `transposed`, its input gradient.
void run(const OpContext& ctx, const ConvShape& shape, bool transposed, const Tensor& source, const Tensor& filter,
         Tensor& result, const void* bias = nullptr) {
  kernels(source.device())
      .conv({.shape = shape,
             .transposed = transposed,
             .in = source.dtype(),
             .out = result.dtype(),
             .source = source.raw(),
             .source_pitch = source.pitch(),
             .filter = filter.raw(),
             .result = result.mutable_raw(),
             .result_pitch = result.pitch(),
             .bias = bias,
             .tf32 = ctx.tf32});
}

}  // namespace

Tensors convolve(const OpInfo& info, OpContext& ctx, std::span<const Tensor> in, const Shape& y_shape,
                 const ConvShape& shape, bool transposed, const OutputView& into) {
  const Tensor &x = in[0], &bias = in[2];
  const Tensor w = in[1].contiguous_copy();
  check<DTypeError>(x.dtype() == w.dtype() && is_floating(x.dtype()),
                    "{}: wanted x and w of one floating dtype, got {} and {}; cast x first", where(info.name),
                    name_of(x.dtype()), name_of(w.dtype()));
  check<ShapeError>(!bias.defined() || bias.shape() == Shape{y_shape[3]}, "{}: wanted bias ({}), got {}",
                    where(info.name), y_shape[3], bias.shape());
  const Tensor wide_bias = bias.defined() ? bias.to(accumulate_dtype(x.dtype())) : bias;
  Tensor y = into.empty(y_shape, ctx.store_dtype, x.device());
  run(ctx, shape, transposed, x, w, y, wide_bias.defined() ? wide_bias.raw() : nullptr);
  ctx.save(x);
  ctx.save(w);
  return {y};
}

void convolve_backward(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx, const ConvShape& shape,
                       bool transposed) {
  const Tensor& x = ctx.saved(0, info.name);
  const Tensor& w = ctx.saved(1, info.name);
  const Tensor g = gy.to(x.dtype());
  const DType sums = accumulate_dtype(x.dtype());
  if (InputGradient gw(gx, 1, sums); gw.needed()) {
    const Tensor &image = transposed ? g : x, &result = transposed ? x : g;
    kernels(x.device())
        .conv_weight({.shape = shape,
                      .in = x.dtype(),
                      .x = image.raw(),
                      .x_pitch = image.pitch(),
                      .gy = result.raw(),
                      .gy_pitch = result.pitch(),
                      .gw = gw.raw(),
                      .tf32 = ctx.tf32});
    gw.finish();
  }
  bias_gradient(g, gx, 2);
  if (gx.needs(0)) {
    Tensor to = gx.destination_over(0, 0);  // nothing below reads x
    run(ctx, shape, !transposed, g, w, to);
  }
}

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

}  // namespace binade::ops
