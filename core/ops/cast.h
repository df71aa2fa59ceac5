#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Converts x to another dtype. To a floating dtype, it rounds once, to nearest even; values beyond its range become
/// infinite, and NaN stays NaN. Tensor::to() has the rules for other dtypes. x has any shape and may be a channel
/// slice. gx = gy in x's gradient dtype. Saves nothing. A precision policy never casts the input of this op, because
/// the policy's casts are calls of this op.
struct Cast {
  struct Params {
    DType to = DType::f32;
  };
  static constexpr OpInfo info{.name = "cast",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .policy_inputs = 0,
                               .observed = Observed::kByKernels,
                               .same_values = true,
                               .carries_masks = true,
                               .mask_inputs = 0b1};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
