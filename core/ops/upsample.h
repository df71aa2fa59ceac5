#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// How a pixel of the result is computed: copied from one pixel of x (kNearest, kNearestExact), interpolated in each
/// dimension (kBilinear, kBicubic), or the average of the pixels of x that it covers (kArea).
enum class UpsampleMode {
  kNearest,
  kBilinear,
  kNearestExact,
  kBicubic,
  kArea,
  kLinear = kBilinear,     ///< its name for sequences
  kTrilinear = kBilinear,  ///< its name for volumes
};

/// The size and the rule of a resized image.
struct UpsampleParams {
  std::int64_t out_height = 1, out_width = 1;
  UpsampleMode mode = UpsampleMode::kNearest;
  /// The first and last pixels of x and y are at the same positions: in the formulas of Upsample, s is (H - 1) /
  /// (out_height - 1), 0 for one pixel, and u is o s. kBilinear and kBicubic only.
  bool align_corners = false;
  /// A pixel of y that covers several pixels of x is a weighted average of all of them, so that fine structures do not
  /// alias. kBilinear and kBicubic only.
  bool antialias = false;
  /// s, the pixels of x per pixel of y; 0: H / out_height and W / out_width. Not used with align_corners.
  double step_y = 0, step_x = 0;
};

/// Resamples an image to another size. x (N, H, W, C) -> y (N, out_height, out_width, C) in x's dtype. In each
/// dimension, with s = H / out_height (or step_y) in the first and s = W / out_width (or step_x) in the second:
///
///   nearest:        y[o] = x[floor(o s)]
///   nearest exact:  y[o] = x[floor((o + 0.5) s)]
///   bilinear:       y[o] = (1 - f) x[i] + f x[i + 1], where u = max(0, (o + 0.5) s - 0.5), i = floor(u), f = u - i,
///                   and x beyond the edge is x at the edge
///   area:           y[o] = the average of x[floor(o H / out_height)] up to x[ceil((o + 1) H / out_height) - 1]
///
/// With `antialias`, the weight of x[i] in y[o] is w((i + 0.5 - (o + 0.5) s) / max(1, s)), divided by the sum of these
/// weights, with s as above. w is the triangle max(0, 1 - |t|), or Keys' cubic with a = -0.5, which is 0 for |t| >= 2.
///
/// A pixel whose weight is 0 is not read. gx is the sum over the output pixels that read the input pixel, with the same
/// weights, added in output order. NaN propagates. x may be a channel slice. Saves nothing. Throws ShapeError unless x
/// has rank 4 and all extents are >= 1.
struct Upsample {
  using Params = UpsampleParams;
  static constexpr OpInfo info{.name = "upsample",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 3},
                               .observed = Observed::kByKernels,
                               .range = ranges::within};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Like Upsample, with cubic polynomials, whose results may lie beyond the range of x. With u = (o + 0.5) s - 0.5
/// (see align_corners) and i = floor(u), y[o] is the sum of x[i - 1] … x[i + 2] with Keys' weights for a = -0.75 (Keys,
/// "Cubic convolution interpolation for digital image processing", 1981). Pixels beyond the edge have the value of the
/// pixel at the edge. The mode is kBicubic.
struct UpsampleBicubic {
  using Params = UpsampleParams;
  static constexpr OpInfo info{
      .name = "upsample_bicubic", .inputs = "x", .numerics = {.ulp_f32 = 3}, .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
