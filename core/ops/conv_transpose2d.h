#pragma once

#include "binade/core/ops/convolutions.h"
#include "binade/core/ops/op.h"
#include "binade/core/ops/output_view.h"

namespace binade::ops {

/// The data gradient of a convolution, as a layer: every pixel of x paints its filter, stride apart, into y.
///
///   y[n, h stride - padding + r dilation, w stride - padding + s dilation, k] += x[n, h, w, c] w[c, r, s, k], plus
///   bias[k].
///
///   x (N, H, W, C), w (C, R, S, K / groups), bias (K) or left out;  y (N, P, Q, K),
///   P = (H - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1, Q likewise; output_padding < max(stride,
///   dilation).
///
/// Dtypes, sums, rounding and NaN as conv2d. gx is the convolution of gy with w; gw the product of x and gy over all
/// pixels; gbias the sums of gy. Saves x and w.
struct ConvTranspose2d {
  struct Params {
    Extent2 stride = 1;
    Extent2 padding = 0;
    Extent2 output_padding = 0;
    Extent2 dilation = 1;
    std::int64_t groups = 1;
    OutputView into = {};  ///< where y lies
  };
  static constexpr OpInfo info{.name = "conv_transpose2d",
                               .inputs = "x, w, bias?",
                               .precision = PrecisionClass::kLow,
                               .policy_inputs = 0b011,
                               .family = OpFamily::kProduct,
                               .observed = Observed::kByKernels,
                               .slices = true};

  /// The shape of y. Throws ShapeError or ArgumentError saying what does not fit.
  static Shape output_shape(const Shape& x, const Shape& w, const Params& p);

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
