#pragma once

#include "binade/core/ops/op.h"
#include "binade/core/ops/output_view.h"

namespace binade::ops {

/// Batch norm over all dimensions but the last (Ioffe, Szegedy, 2015), with the residual sum and the ReLU that follow
/// it fused in. Inputs (x, weight, bias, residual, running_mean, running_var): x (N, H, W, C) or (N, C); the parameters
/// and statistics (C); weight, bias and residual (x's shape) may be left out; the running statistics are read only when
/// `training` is off. Outputs (y, mean, var): y in x's dtype; mean and biased variance (C) of the batch, which carry no
/// gradient (the running ones when not training).
///
///   training: mean = avg(x), var = avg((x - mean)^2) over the N H W values of a channel
///   rstd = 1 / sqrt(var + eps), xhat = (x - mean) rstd, y = act(xhat weight + bias + residual)
///   gy' = gy where act passed; gresidual = gy'; gbias = sum gy'; gweight = sum gy' xhat
///   training: gx = weight rstd (gy' - avg(gy') - xhat avg(gy' xhat)); else gx = weight rstd gy'
///
/// Statistics: two passes per block of rows in f32, blocks combined in double in block order (Chan, Golub, LeVeque,
/// 1983). Parameters and statistics are f32 (f64 for f64). x and residual may be channel slices. A NaN in a channel, or
/// a variance beyond f32, makes the channel's statistics and y NaN; the ReLU keeps NaN. eps = 0 and a constant channel
/// is the singularity. Saved: x, mean, rstd, weight, bias, and y where a residual and a ReLU meet (the mask). Throws
/// ShapeError on (C) or residual mismatches, and when training on no values.
struct BatchNorm {
  struct Params {
    double eps = 1e-5;
    bool training = true;
    bool relu = false;
    OutputView into = {};  ///< where y lies
  };
  static ValueRange range(const RangeInputs& in, const Params& p) {
    return p.relu ? ranges::not_negative(in) : ValueRange{};
  }
  static constexpr OpInfo info{.name = "batch_norm",
                               .inputs = "x, weight?, bias?, residual?, running_mean?, running_var?",
                               .precision = PrecisionClass::kAsIs,
                               .numerics = {.safe_low = -1e16, .safe_high = 1e16, .ulp_f32 = 8, .ulp_half = 1},
                               .policy_inputs = 0b1001,
                               .family = OpFamily::kNorm,
                               .observed = Observed::kByKernels,
                               .slices = true,
                               .range = typed_range<range>};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
