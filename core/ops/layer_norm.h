#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Layer norm over the last dimension (Ba, Kiros, Hinton, 2016). x (…, C), weight (C), bias (C), each of the last two
/// may be left out; y (…, C) in x's dtype.
///
///   y = (x - mean) rstd weight + bias, mean = avg(x), rstd = 1 / sqrt(avg((x - mean)^2) + eps)
///   xhat = (x - mean) rstd, g = gy weight: gx = rstd (g - avg(g) - xhat avg(g xhat)); gweight = sum gy xhat; gbias =
///   sum gy
///
/// Statistics take two passes over the row, in f32 (f64 for f64), like weight and bias. If squares leave that range,
/// the CPU computes the statistics of the row times a power of two, so that y is right for every finite x; on a GPU
/// such a row is NaN. x may be a channel slice. A NaN in a row makes the row NaN. A constant row gives bias with eps >
/// 0, NaN with eps = 0 (the singularity). Saved: x, mean, rstd. Throws ShapeError when weight or bias is not (C).
struct LayerNorm {
  struct Params {
    double eps = 1e-5;
  };
  static constexpr OpInfo info{.name = "layer_norm",
                               .inputs = "x, weight?, bias?",
                               .precision = PrecisionClass::kAsIs,
                               .numerics = {.safe_low = -1e16, .safe_high = 1e16, .ulp_f32 = 8, .ulp_half = 1},
                               .policy_inputs = 0b1,
                               .family = OpFamily::kNorm,
                               .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// The same behind a residual connection, in one pass: (x, residual, weight, bias) -> (h, y), h = x + residual rounded
/// to the dtype they are stored in, y = layer_norm(h). The bits of an add followed by a layer norm; gx = gresidual =
/// gradient through y + gh.
struct AddLayerNorm {
  using Params = LayerNorm::Params;
  static constexpr OpInfo info{.name = "add_layer_norm",
                               .inputs = "x, residual, weight?, bias?",
                               .precision = PrecisionClass::kWidest,
                               .numerics = LayerNorm::info.numerics,
                               .policy_inputs = 0b11,
                               .family = OpFamily::kNorm,
                               .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
