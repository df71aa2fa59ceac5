#pragma once

#include "binade/core/ops/row_norm.h"

namespace binade::ops {

/// RMS norm over the last dimension (Zhang, Sennrich, 2019). x (…, C), weight (C), optional; y (…, C) in x's dtype.
///
///   y = x rstd weight, rstd = 1 / sqrt(avg(x^2) + eps)
///   xhat = x rstd, g = gy weight: gx = rstd (g - xhat avg(g xhat)); gweight = sum gy xhat
///
/// Sums, weight and its gradient are f32 (f64 for f64); squares beyond that range are treated as in layer_norm. x may
/// be a channel slice. A NaN makes its row NaN; a row of zeros with eps = 0 is the op's singularity, a division by 0.
/// Saves x, rstd. Throws ShapeError unless weight is (C).
struct RmsNorm : RowNormOp<RmsNorm, true, false> {
  struct Params {
    double eps = 1e-6;
  };
  static constexpr OpInfo info = norm_info(
      OpInfo{.name = "rms_norm", .inputs = "x, weight?", .precision = PrecisionClass::kAsIs, .policy_inputs = 0b1});
};

/// Computes a residual connection and RMS norm in one pass: (x, residual, weight) -> (h, y) with h = x + residual and y
/// = rms_norm(h). Otherwise like AddLayerNorm.
struct AddRmsNorm : RowNormOp<AddRmsNorm, true, true> {
  using Params = RmsNorm::Params;
  static constexpr OpInfo info = norm_info(OpInfo{.name = "add_rms_norm",
                                                  .inputs = "x, residual, weight?",
                                                  .precision = PrecisionClass::kWidest,
                                                  .policy_inputs = 0b11});
};

}  // namespace binade::ops
