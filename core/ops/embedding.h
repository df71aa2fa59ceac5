#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Rows of a table. Inputs (weight (V, D), indices (…) of i64 or i32) -> y (…, D), y[i] = weight[indices[i]], in the
/// policy's low dtype: a row of the low copy is the row of the master rounded once.
///
///   gweight[v] = sum of gy[i] over the positions i with indices[i] = v, in f32, in position order (a GPU sums chunks
///   of them so, then the chunks), added to the gradient that is there (the other use of a tied table, an earlier
///   micro-batch) where there is one; rows never looked up get 0, or keep what is there
///
/// Saved: indices. Throws DataError naming the first index outside [0, V) and its position (a GPU finds it later: the
/// row is NaN, and whoever waits for the device next throws); ShapeError unless weight has rank 2; DTypeError unless
/// indices are i64 or i32.
struct Embedding {
  struct Params {};
  static constexpr OpInfo info{.name = "embedding",
                               .inputs = "weight, indices",
                               .precision = PrecisionClass::kLow,
                               .numerics = {.ulp_f32 = 0, .ulp_half = 0.5},
                               .policy_inputs = 0b1,
                               .family = OpFamily::kLookup,
                               .observed = Observed::kMoves};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
