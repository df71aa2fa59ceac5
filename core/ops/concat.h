#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Concatenates tensors along an axis (default: channels). The inputs must be equal in every other extent; y has the
/// widest input dtype. gx_i is input i's part of gy. Inputs may be channel slices. If channels are concatenated and the
/// inputs are adjacent in one storage (output_view.h), nothing is copied: y shares the storage, and gx_i are slices of
/// gy. Inputs whose rows are not aligned (has_aligned_rows()) are always copied. Saves nothing. Throws ShapeError for
/// other extents, ArgumentError without inputs or for a bad axis.
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
