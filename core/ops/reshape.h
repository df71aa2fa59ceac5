#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// The same elements in row-major order under other extents. At most one extent may be -1: what is left. Any dtype. A
/// view of x where x is contiguous, else a copy. gx = gy in x's shape. Nothing is saved. Throws ShapeError when counts
/// differ.
struct Reshape {
  struct Params {
    std::vector<std::int64_t> dims{};
  };
  static constexpr OpInfo info{.name = "reshape",
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
