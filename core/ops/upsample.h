#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// The values that upsampling assigns to new pixels: those of the nearest pixel, or interpolated ones.
enum class UpsampleMode { kNearest, kBilinear };

/// Resamples an image to another size. x (N, H, W, C) -> y (N, out_height, out_width, C) in x's dtype. With s = H /
/// out_height:
///
///   nearest:  y[o] = x[floor(o s)]
///   bilinear: u = max(0, (o + 0.5) s - 0.5), y[o] = (1 - f) x[i] + f x[i + 1], i = floor(u), f = u - i (half-pixel
///             centers, the edge repeated), in both dimensions
///
/// A pixel whose weight f or 1 - f is 0 is not read. gx is the sum over the output pixels that read the input pixel,
/// with the same weights, added in output order. NaN propagates. x may be a channel slice. Saves nothing. Throws
/// ShapeError unless x has rank 4 and all extents are >= 1.
struct Upsample {
  struct Params {
    std::int64_t out_height = 1, out_width = 1;
    UpsampleMode mode = UpsampleMode::kNearest;
  };
  static constexpr OpInfo info{.name = "upsample",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 3},
                               .observed = Observed::kByKernels,
                               .range = ranges::within};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
