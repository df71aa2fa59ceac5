#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Dimensions in another order: y's dimension i is x's dimension order[i]. Any dtype; a contiguous copy. gx = gy with
/// the order undone. Nothing is saved. Throws ArgumentError unless `order` holds each of 0 … rank - 1 once (negatives
/// count from the back).
struct Permute {
  struct Params {
    std::vector<int> order{};
  };
  static constexpr OpInfo info{.name = "permute",
                               .inputs = "x",
                               .precision = PrecisionClass::kAsIs,
                               .numerics = {.ulp_f32 = 0, .ulp_half = 0},
                               .observed = Observed::kMoves,
                               .same_values = true,
                               .carries_masks = true,
                               .mask_inputs = 0b1};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
