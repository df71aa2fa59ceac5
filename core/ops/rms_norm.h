#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// RMS norm over the last dimension (Zhang, Sennrich, 2019). x (…, C), weight (C) or left out; y (…, C) in x's dtype.
///
///   y = x rstd weight, rstd = 1 / sqrt(avg(x^2) + eps)
///   xhat = x rstd, g = gy weight: gx = rstd (g - xhat avg(g xhat)); gweight = sum gy xhat
///
/// Sums, weight and its gradient in f32 (f64 for f64); squares beyond that range as in layer_norm. x may be a channel
/// slice. NaN in a row makes the row NaN; a row of zeros is a singularity when eps = 0. Saved: x, rstd. Throws
/// ShapeError when weight is not (C).
struct RmsNorm {
  struct Params {
    double eps = 1e-6;
  };
  static constexpr OpInfo info{.name = "rms_norm",
                               .inputs = "x, weight?",
                               .precision = PrecisionClass::kAsIs,
                               .numerics = {.safe_low = -1e16, .safe_high = 1e16, .ulp_f32 = 8, .ulp_half = 1},
                               .policy_inputs = 0b1,
                               .family = OpFamily::kNorm,
                               .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// (x, residual, weight) -> (h, y), h = x + residual, y = rms_norm(h); see AddLayerNorm.
struct AddRmsNorm {
  using Params = RmsNorm::Params;
  static constexpr OpInfo info{.name = "add_rms_norm",
                               .inputs = "x, residual, weight?",
                               .precision = PrecisionClass::kWidest,
                               .numerics = RmsNorm::info.numerics,
                               .policy_inputs = 0b11,
                               .family = OpFamily::kNorm,
                               .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
