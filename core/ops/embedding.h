#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Looks up rows of a table: weight (V, D), indices (…) in i64 or i32, y (…, D) with y[i] = weight[indices[i]]. y has
/// the policy's low dtype and is read from the 16-bit copy of the table if there is one.
///
///   gweight[v] = sum of gy[i] over the positions i with indices[i] = v, in f32 and in position order (a GPU sums
///   chunks in position order, then the chunks). It is added to an existing gradient (of another use of a tied table,
///   or of an earlier micro-batch). Rows that no index refers to get 0 or keep their existing gradient
///
/// Saves the indices. Throws DataError with value and position of the first index outside [0, V) (on a GPU, the row
/// becomes NaN and the next wait for the device throws), ShapeError unless weight has rank 2, DTypeError unless indices
/// are i64 or i32.
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
