#pragma once

#include "binade/core/ops/norms.h"
#include "binade/core/ops/output_view.h"

namespace binade::ops {

/// Group norm (Wu, He, 2018), fused with an optional following residual sum and ReLU. Inputs (x, weight, bias,
/// residual): x (N, …, C), weight (C), bias (C), residual like x; all but x are optional. y has x's shape and dtype.
/// The channels are divided into `groups` groups of C / groups neighboring channels; statistics are over all positions
/// and channels of a group in one sample.
///
///   y = act(xhat weight + bias + residual), xhat = (x - mean) rstd
///   gy' = gy where act passed its argument, else 0; g = gy' weight; avg is the average over the group:
///   gx = rstd (g - avg(g) - xhat avg(g xhat)); gweight = sum gy' xhat; gbias = sum gy'; gresidual = gy'
///
/// Statistics are computed as in batch_norm, in f32 for each block and then in double in block order. Parameters are
/// f32 (f64 for f64). x and residual may be channel slices. A NaN in a group, or a variance beyond f32, makes the group
/// NaN; the ReLU keeps NaN. A constant group with eps = 0 is the op's singularity, a division by 0. Saves x, mean,
/// rstd, weight, bias, and y if there are a residual and a ReLU (for its mask). Throws ShapeError for wrong shapes and
/// if C is not a multiple of groups.
struct GroupNorm {
  struct Params {
    std::int64_t groups = 1;
    double eps = 1e-5;
    bool relu = false;
    OutputView into = {};  ///< where y is stored; by default in a new tensor
  };
  static ValueRange range(const RangeInputs& in, const Params& p) {
    return p.relu ? ranges::not_negative(in) : ValueRange{};
  }
  static constexpr OpInfo info = norm_info(OpInfo{.name = "group_norm",
                                                  .inputs = "x, weight?, bias?, residual?",
                                                  .policy_inputs = 0b1001,
                                                  .slices = true,
                                                  .range = typed_range<range>});

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
