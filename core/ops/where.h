#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Selects y = condition ? a : b for each element, with broadcasting.
///   condition (u8 or bool), a, b (floating)   ->   y in the wider dtype of a and b
/// ga = gy if the condition holds, else 0; gb = gy if it does not hold, else 0. Gradients are selected, not multiplied
/// by a mask, so that a NaN in the branch not taken has no effect. Saves the condition.
struct Where {
  struct Params {};
  static constexpr OpInfo info{.name = "where",
                               .inputs = "condition, a, b",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .policy_inputs = 0b110,
                               .observed = Observed::kByKernels,
                               .range = ranges::within_branches,
                               .carries_masks = true,
                               .mask_inputs = 0b110};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
