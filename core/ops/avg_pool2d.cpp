#include "binade/core/ops/avg_pool2d.h"

#include <algorithm>

#include "binade/core/ops/input_gradient.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/resample.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

TapList windows(const char* dimension, std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                std::int64_t padding, bool count_include_pad) {
  const std::int64_t outputs = pooled_extent(AvgPool2d::info, dimension, extent, kernel, stride, padding);
  TapList list(outputs);
  for (std::int64_t out = 0; out < outputs; ++out) {
    const std::int64_t first = out * stride - padding;
    const std::int64_t begin = std::max<std::int64_t>(0, first), end = std::min(extent, first + kernel);
    for (std::int64_t i = begin; i < end; ++i) list.add(i, 1);
    // A window may extend beyond the padding at the bottom or right edge. Positions beyond it are not counted, even
    // with count_include_pad.
    const std::int64_t counted = count_include_pad ? std::min(first + kernel, extent + padding) - first : end - begin;
    list.close(static_cast<double>(counted));
  }
  return list;
}

TapList rows(const Shape& x, const AvgPool2d::Params& p) {
  return windows("height", x[1], p.kernel.y, p.stride.y, p.padding.y, p.count_include_pad);
}
TapList cols(const Shape& x, const AvgPool2d::Params& p) {
  return windows("width", x[2], p.kernel.x, p.stride.x, p.padding.x, p.count_include_pad);
}

}  // namespace

Tensors AvgPool2d::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check<ShapeError>(in[0].rank() == 4, "{}: wanted x of shape (N, H, W, C), got {}", where(info.name), in[0].shape());
  const Tensor x = in[0].to(ctx.store_dtype);
  const Shape shape{x.dim(0), pooled_extent(info, "height", x.dim(1), p.kernel.y, p.stride.y, p.padding.y),
                    pooled_extent(info, "width", x.dim(2), p.kernel.x, p.stride.x, p.padding.x), x.dim(3)};
  if (shape.numel() == 0) return {Tensor::empty(shape, x.dtype(), x.device())};
  return {resample(x, rows(x.shape(), p), cols(x.shape(), p), true)};
}

void AvgPool2d::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const OpContext::Input& x = ctx.inputs[0];
  if (gy[0].numel() == 0) return InputGradient(gx, 0, gy[0].dtype()).finish();
  resample_backward(gy[0], x, gx, rows(x.shape, p), cols(x.shape, p), true);
}

}  // namespace binade::ops
