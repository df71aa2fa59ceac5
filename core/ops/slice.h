#pragma once

#include "binade/core/ops/move.h"

namespace binade::ops {

/// Returns positions [begin, begin + count) along an axis of x, which has any dtype. Slices of the last axis (channels)
/// and of the first are views of x, others are copies. gx is gy at these positions and 0 elsewhere. Saves nothing.
/// Throws ArgumentError for a bad axis, ShapeError for a range outside the extent.
struct Slice {
  struct Params {
    int axis = -1;
    std::int64_t begin = 0, count = 0;
  };
  static constexpr OpInfo info = move_info(OpInfo{.name = "slice", .inputs = "x", .range = ranges::within});

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
