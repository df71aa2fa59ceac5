#pragma once

#include "binade/core/ops/move.h"

namespace binade::ops {

/// Reorders dimensions: dimension i of y is dimension order[i] of x. x has any dtype; y is a contiguous copy. gx is gy
/// in the original order. Saves nothing. Throws ArgumentError unless `order` contains each of 0 … rank - 1 once
/// (negative numbers count from the end).
struct Permute {
  struct Params {
    std::vector<int> order{};
  };
  static constexpr OpInfo info = move_info(OpInfo{.name = "permute", .inputs = "x", .same_values = true});

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
