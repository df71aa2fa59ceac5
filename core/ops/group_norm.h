#pragma once

#include "binade/core/ops/op.h"
#include "binade/core/ops/output_view.h"

namespace binade::ops {

/// Group norm (Wu, He, 2018), with the residual sum and the ReLU that follow it fused in. Inputs (x, weight, bias,
/// residual): x (N, …, C), weight (C), bias (C), residual (x's shape), all but x may be left out; y like x. Channels
/// fall into `groups` runs of C / groups; statistics are over a sample's group, all its positions.
///
///   y = act(xhat weight + bias + residual), xhat = (x - mean) rstd
///   gy' = gy where act passed, g = gy' weight; averages over the group:
///   gx = rstd (g - avg(g) - xhat avg(g xhat)); gweight = sum gy' xhat; gbias = sum gy'; gresidual = gy'
///
/// Statistics as batch_norm's: f32 in blocks, combined in double in block order. Parameters f32 (f64 for f64). x and
/// residual may be channel slices. A group whose variance is beyond f32 is NaN. NaN spreads over its group; the ReLU
/// keeps NaN. eps = 0 and a constant group is the singularity. Saved: x, mean, rstd, weight, bias, and y where a
/// residual and a ReLU meet (the mask). Throws ShapeError when C is not a multiple of groups, and on parameters that
/// are not (C) or a residual of another shape.
struct GroupNorm {
  struct Params {
    std::int64_t groups = 1;
    double eps = 1e-5;
    bool relu = false;
    OutputView into = {};  ///< where y lies
  };
  static ValueRange range(const RangeInputs& in, const Params& p) {
    return p.relu ? ranges::not_negative(in) : ValueRange{};
  }
  static constexpr OpInfo info{.name = "group_norm",
                               .inputs = "x, weight?, bias?, residual?",
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
