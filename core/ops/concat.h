#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Concatenates tensors along an axis (default: channels). The inputs must have equal extents along all other axes; y
/// has the widest input dtype. gx_i is the part of gy that corresponds to input i. Inputs may be channel slices. If
/// channels are concatenated and the inputs are adjacent in one storage (output_view.h), nothing is copied: y shares
/// the storage, and gx_i are slices of gy. Inputs whose rows are not aligned (has_aligned_rows()) are always copied.
/// Saves nothing. Throws ShapeError for extents that do not fit, and ArgumentError for an empty list of inputs or a bad
/// axis.
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
