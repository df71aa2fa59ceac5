#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Positions [begin, begin + count) along an axis. Any dtype; values are not touched. Channels (the last axis) and
/// leading rows (the first) are views of x, other axes copies. gx = gy there, 0 elsewhere. Nothing is saved. Throws
/// ArgumentError on a bad axis, ShapeError on a range outside the extent.
struct Slice {
  struct Params {
    int axis = -1;
    std::int64_t begin = 0, count = 0;
  };
  static constexpr OpInfo info{.name = "slice",
                               .inputs = "x",
                               .precision = PrecisionClass::kAsIs,
                               .numerics = {.ulp_f32 = 0, .ulp_half = 0},
                               .observed = Observed::kMoves,
                               .range = ranges::within,
                               .carries_masks = true,
                               .mask_inputs = 0b1};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
