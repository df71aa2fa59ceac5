#pragma once

#include "binade/core/ops/norms.h"
#include "binade/core/ops/output_view.h"

namespace binade::ops {

/// Batch norm over all dimensions but the last (Ioffe, Szegedy, 2015), fused with an optional following residual sum
/// and ReLU. Inputs (x, weight, bias, residual, running_mean, running_var): x (N, H, W, C) or (N, C); residual like x;
/// the others (C). weight, bias and residual are optional; the running statistics are read only if `training` is false.
/// Outputs (y, mean, var): y in x's dtype; mean and biased variance (C) of the batch (the running ones if not
/// training), without gradient.
///
///   training: mean = avg(x), var = avg((x - mean)^2) over the N H W values of a channel
///   rstd = 1 / sqrt(var + eps), xhat = (x - mean) rstd, y = act(xhat weight + bias + residual), act: ReLU or none
///   gy' = gy where act passed its argument, else 0; gresidual = gy'; gbias = sum gy'; gweight = sum gy' xhat
///   training: gx = weight rstd (gy' - avg(gy') - xhat avg(gy' xhat)); else gx = weight rstd gy'
///
/// Statistics take two passes per block of rows in f32; blocks are combined in double in block order (Chan, Golub,
/// LeVeque, 1983). Parameters and statistics are f32 (f64 for f64). x and residual may be channel slices. A NaN in a
/// channel, or a variance beyond f32, makes the channel's statistics and y NaN; the ReLU keeps NaN. A constant channel
/// with eps = 0 is the op's singularity, a division by 0. Saves x, mean, rstd, weight, bias, and y if there are a
/// residual and a ReLU (for its mask). Throws ShapeError for wrong shapes, and if there are no values to train on.
struct BatchNorm {
  struct Params {
    double eps = 1e-5;
    bool training = true;
    bool relu = false;
    OutputView into = {};  ///< where y is stored; by default in a new tensor
  };
  static ValueRange range(const RangeInputs& in, const Params& p) {
    return p.relu ? ranges::not_negative(in) : ValueRange{};
  }
  static constexpr OpInfo info = norm_info(OpInfo{.name = "batch_norm",
                                                  .inputs = "x, weight?, bias?, residual?, running_mean?, running_var?",
                                                  .policy_inputs = 0b1001,
                                                  .slices = true,
                                                  .range = typed_range<range>});

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
