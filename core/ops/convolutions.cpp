#include "binade/core/ops/convolutions.h"

#include "binade/core/kernels/table.h"
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
  kernels(x.device())
      .conv({.shape = shape,
             .transposed = transposed,
             .in = x.dtype(),
             .out = y.dtype(),
             .source = x.raw(),
             .source_pitch = x.pitch(),
             .filter = w.raw(),
             .result = y.mutable_raw(),
             .result_pitch = y.pitch(),
             .bias = wide_bias.defined() ? wide_bias.raw() : nullptr,
             .tf32 = ctx.tf32});
  ctx.save(x);
  ctx.save(w);
  return {y};
}

void convolve_backward(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx, const ConvShape& shape,
                       bool transposed) {
  const Tensor& x = ctx.saved(0, info.name);
  const Tensor& w = ctx.saved(1, info.name);
  const Tensor g = gy.to(x.dtype());
  const KernelTable& table = kernels(x.device());
  const DType sums = accumulate_dtype(x.dtype());
  if (InputGradient gw(gx, 1, sums); gw.wanted()) {
    const Tensor &image = transposed ? g : x, &result = transposed ? x : g;
    table.conv_weight({.shape = shape,
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
    table.conv({.shape = shape,
                .transposed = !transposed,
                .in = x.dtype(),
                .out = to.dtype(),
                .source = g.raw(),
                .source_pitch = g.pitch(),
                .filter = w.raw(),
                .result = to.mutable_raw(),
                .result_pitch = to.pitch(),
                .tf32 = ctx.tf32});
  }
}

}  // namespace binade::ops
