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

  /// indices: contiguous i64.
  struct Kernels {
    /// y[i] = weight[indices[i]], moved as it is.
    void (*rows)(const Tensor& weight, const Tensor& indices, Tensor& y);
    /// gw gets the sums of gy's rows by index, or has them added: one addition to each of its elements.
    void (*gradient)(const Tensor& indices, const Tensor& gy, Tensor& gw, bool accumulate);
  };
  static inline KernelSlot<Kernels> kernels;
};
/// What is wrong with `index` at `position`; `op` as where() names it.
std::string bad_index_text(std::string_view op, const Shape& indices, std::int64_t position, std::int64_t index,
                           std::int64_t rows);
void register_embedding_cpu();

}  // namespace binade::ops
