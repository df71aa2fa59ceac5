#pragma once

#include "binade/core/ops/row_norm.h"

namespace binade::ops {

/// Layer norm over the last dimension (Ba, Kiros, Hinton, 2016). x (…, C), weight (C) and bias (C), both optional; y
/// (…, C) in x's dtype.
///
///   y = (x - mean) rstd weight + bias, mean = avg(x), rstd = 1 / sqrt(avg((x - mean)^2) + eps)
///   xhat = (x - mean) rstd, g = gy weight: gx = rstd (g - avg(g) - xhat avg(g xhat)); gweight = sum gy xhat;
///   gbias = sum gy
///
/// Mean and variance are computed in two passes over the row. Mean, variance, weight and bias are f32 (f64 for f64). If
/// squares exceed the range of that dtype, the CPU computes the statistics of the row times a power of two, so that y
/// is right for every finite x; on a GPU such a row is NaN. x may be a channel slice. A NaN makes its row NaN. For a
/// constant row, y is the bias if eps > 0, and NaN if eps = 0, which is the op's singularity (a division by 0). Saves
/// x, mean, rstd. Throws ShapeError unless weight and bias are (C).
struct LayerNorm : RowNormOp<LayerNorm, false, false> {
  struct Params {
    double eps = 1e-5;
  };
  static constexpr OpInfo info = norm_info(OpInfo{
      .name = "layer_norm", .inputs = "x, weight?, bias?", .precision = PrecisionClass::kAsIs, .policy_inputs = 0b1});
};

/// Computes a residual connection and layer norm in one pass: (x, residual, weight, bias) -> (h, y), where h is x +
/// residual, rounded to the stored dtype, and y is layer_norm(h). The bits are those of an add followed by a layer
/// norm. gx and gresidual are equal: the gradient that passes through y, plus gh.
struct AddLayerNorm : RowNormOp<AddLayerNorm, false, true> {
  using Params = LayerNorm::Params;
  static constexpr OpInfo info = norm_info(OpInfo{.name = "add_layer_norm",
                                                  .inputs = "x, residual, weight?, bias?",
                                                  .precision = PrecisionClass::kWidest,
                                                  .policy_inputs = 0b11});
};

}  // namespace binade::ops
