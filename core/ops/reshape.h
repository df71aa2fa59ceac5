#pragma once

#include "binade/core/ops/move.h"

namespace binade::ops {

/// The same elements in row-major order with other extents. One extent may be -1 and is then computed. Any dtype. A
/// view of x if x is contiguous, else a copy. gx = gy in x's shape. Saves nothing. Throws ShapeError if the numbers of
/// elements differ.
struct Reshape {
  struct Params {
    std::vector<std::int64_t> dims{};
  };
  static constexpr OpInfo info = move_info(OpInfo{.name = "reshape", .inputs = "x", .same_values = true});

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
