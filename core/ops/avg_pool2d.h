#pragma once

#include "binade/core/ops/extent2.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// Computes the average over each window of an image: x (N, H, W, C) -> y (N, OH, OW, C) in x's dtype, with OH =
/// floor((H + 2 padding - kernel) / stride) + 1 and OW likewise.
///
///   y = (sum of the window's pixels inside the image) / n, where n = kernel.y kernel.x with count_include_pad,
///   otherwise the number of pixels inside; gx = sum of gy / n over the windows that contain the pixel
///
/// Sums are f32. NaN propagates. x may be a channel slice. Saves nothing. Throws ShapeError for the same inputs as
/// max_pool2d.
struct AvgPool2d {
  struct Params {
    Extent2 kernel = 2;
    Extent2 stride = 2;
    Extent2 padding = 0;
    bool count_include_pad = true;
  };
  static constexpr OpInfo info{
      .name = "avg_pool2d", .inputs = "x", .observed = Observed::kByKernels, .range = ranges::within_or_zero};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
