#pragma once

#include "binade/core/ops/move.h"

namespace binade::ops {

/// Changes the extents of x, which has any dtype; the elements keep their row-major order. One extent may be -1 and is
/// then computed from the others. y is a view of x if x is contiguous, otherwise a copy. gx is gy in x's shape. Saves
/// nothing. Throws ShapeError if the numbers of elements differ.
struct Reshape {
  struct Params {
    std::vector<std::int64_t> dims{};
  };
  static constexpr OpInfo info = move_info(OpInfo{.name = "reshape", .inputs = "x", .same_values = true});

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
