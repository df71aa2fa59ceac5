#pragma once

#include "binade/core/ops/convolutions.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// y[n, p, q, k] = bias[k] + sum over r, s, c of
///                 x[n, p stride - padding + r dilation, q stride - padding + s dilation, c] w[k, r, s, c], x = 0
///                 outside.
///
///   x (N, H, W, C), w (K, R, S, C / groups), bias (K) or left out;  y (N, P, Q, K),
///   P = (H + 2 padding - dilation (R - 1) - 1) / stride + 1, Q likewise from W and S.
///
/// With groups, filters [g K / groups, (g + 1) K / groups) see channels [g C / groups, (g + 1) C / groups). x and w of
/// one floating dtype, x may be a channel slice; bias is not cast by the policy (f32, or f64 with f64 inputs). Sums are
/// f32 (f64 for f64), rounded once: |error| <= R S C / groups 2^-24 sum|x w| before the rounding. NaN and inf pass.
///
/// gx: the transposed convolution of gy; gw: the product of gy and x over all pixels; gbias: sums of gy. Saves x and w.
struct Conv2d {
  struct Params {
    Extent2 stride = 1;
    Extent2 padding = 0;
    Extent2 dilation = 1;
    std::int64_t groups = 1;
  };
  static constexpr OpInfo info{.name = "conv2d",
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
