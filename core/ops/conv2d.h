#pragma once

#include "binade/core/ops/convolutions.h"

namespace binade::ops {

/// y[n, p, q, k] = bias[k] + sum over r, s, c of
///                 x[n, p stride - padding + r dilation, q stride - padding + s dilation, c] w[k, r, s, c],
///                 with x = 0 outside the image.
///
///   x (N, H, W, C), w (K, R, S, C / groups), bias (K), optional; y (N, P, Q, K),
///   P = (H + 2 padding - dilation (R - 1) - 1) / stride + 1, Q likewise from W and S.
///
/// With groups, filters [g K / groups, (g + 1) K / groups) read channels [g C / groups, (g + 1) C / groups). x and w
/// have one floating dtype; x may be a channel slice. The policy does not cast the bias, which is f32 (f64 with f64
/// inputs). Sums are f32 (f64 for f64), rounded once: |error| <= R S C / groups 2^-24 sum|x w| before rounding. NaN and
/// inf propagate.
///
/// gx is the transposed convolution of gy, gw the product of gy and x over all pixels, and gbias the sums of gy. Saves
/// x and w.
struct Conv2d : ConvolutionOp<Conv2d, false> {
  struct Params {
    Extent2 stride = 1;
    Extent2 padding = 0;
    Extent2 dilation = 1;
    std::int64_t groups = 1;
  };
  static constexpr OpInfo info = convolution_info(OpInfo{.name = "conv2d"});

  /// Returns the shape of y. Throws ShapeError or ArgumentError if shapes or parameters do not fit.
  static Shape output_shape(const Shape& x, const Shape& w, const Params& p);
};

}  // namespace binade::ops
