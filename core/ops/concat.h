#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Tensors one after the other along an axis (default: channels). x_i equal in every other extent -> y, whose extent
/// there is the sum; y in the widest input dtype. gx_i = its part of gy. Inputs may be channel slices. Along the
/// channels nothing is copied where the inputs lie side by side in one storage already (output_view.h), which y then
/// shares; and gx_i are slices of gy. Slices whose rows do not begin as a dense tensor's (has_aligned_rows) are copied.
/// Nothing is saved. Throws ShapeError on other extents, ArgumentError without inputs or on a bad axis.
struct Concat {
  struct Params {
    int axis = -1;
  };
  static constexpr OpInfo info{.name = "concat",
                               .inputs = "x...",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0, .ulp_half = 0.5},
                               .observed = Observed::kMoves,
                               .slices = true,
                               .range = ranges::within_any,
                               .carries_masks = true,
                               .mask_inputs = ~0u};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
