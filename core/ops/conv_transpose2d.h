#pragma once

#include "binade/core/ops/convolutions.h"

namespace binade::ops {

/// Transposed convolution, which computes the same function as the input gradient of a convolution: each pixel of x
/// adds a multiple of the filter to y, at positions `stride` apart.
///
///   y[n, h stride - padding + r dilation, w stride - padding + s dilation, k] += x[n, h, w, c] w[c, r, s, k], plus
///   bias[k].
///
///   x (N, H, W, C), w (C, R, S, K / groups), bias (K), optional; y (N, P, Q, K),
///   P = (H - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1, Q likewise from W and S;
///   output_padding < max(stride, dilation).
///
/// Dtypes, sums, rounding and NaN are treated as in conv2d. gx is the convolution of gy with w, gw the product of x and
/// gy over all pixels, and gbias the sums of gy. Saves x and w.
struct ConvTranspose2d : ConvolutionOp<ConvTranspose2d, true> {
  struct Params {
    Extent2 stride = 1;
    Extent2 padding = 0;
    Extent2 output_padding = 0;
    Extent2 dilation = 1;
    std::int64_t groups = 1;
    OutputView into = {};  ///< where y is stored; by default in a new tensor
  };
  static constexpr OpInfo info = convolution_info(OpInfo{.name = "conv_transpose2d"});

  /// Returns the shape of y. Throws ShapeError or ArgumentError if shapes or parameters do not fit.
  static Shape output_shape(const Shape& x, const Shape& w, const Params& p);
};

}  // namespace binade::ops
