#include "binade/core/ops/upsample.h"

#include <algorithm>
#include <cmath>

#include "binade/core/ops/extent2.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/ops/resample.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

TapList grid(std::int64_t extent, std::int64_t outputs, UpsampleMode mode) {
  TapList list(outputs, mode == UpsampleMode::kNearest ? 1 : 2);
  const double scale = static_cast<double>(extent) / static_cast<double>(outputs);
  for (std::int64_t out = 0; out < outputs; ++out) {
    if (mode == UpsampleMode::kNearest) {
      list.add(out * extent / outputs, 1);
    } else {
      const double u = std::max(0.0, (static_cast<double>(out) + 0.5) * scale - 0.5);
      const auto i = std::min(static_cast<std::int64_t>(u), extent - 1);
      const double f = i + 1 < extent ? u - static_cast<double>(i) : 0;
      list.add(i, 1 - f);
      if (f > 0) list.add(i + 1, f);
    }
    list.close();
  }
  return list;
}

}  // namespace

Tensors Upsample::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Shape& shape = in[0].shape();
  check<ShapeError>(shape.rank() == 4, "{}: wanted x of shape (N, H, W, C), got {}", where(info.name), shape);
  for (const std::int64_t extent : {shape[1], shape[2], p.out_height, p.out_width})
    check<ShapeError>(extent >= 1 && extent <= kMaxExtent, "{}: wanted height and width of 1 to {}, got {} to ({}, {})",
                      where(info.name), kMaxExtent, shape, p.out_height, p.out_width);
  const Tensor x = in[0].to(ctx.store_dtype);
  if (x.numel() == 0)
    return {Tensor::empty(Shape{shape[0], p.out_height, p.out_width, shape[3]}, x.dtype(), x.device())};
  return {resample(x, grid(shape[1], p.out_height, p.mode), grid(shape[2], p.out_width, p.mode), false)};
}

void Upsample::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const OpContext::Input& x = ctx.inputs[0];
  if (gy[0].numel() == 0) return InputGradient(gx, 0, gy[0].dtype()).finish();
  resample_backward(gy[0], x, gx, grid(x.shape[1], p.out_height, p.mode), grid(x.shape[2], p.out_width, p.mode), false);
}

}  // namespace binade::ops
