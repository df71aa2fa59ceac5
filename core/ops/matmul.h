#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// y = op(a) op(b) over the last two dimensions; leading dimensions are batches and broadcast as NumPy's do.
///
///   a (..., M, K), or (..., K, M) with transpose_a;  b (..., K, N), or (..., N, K) with transpose_b;  y (..., M, N).
///
/// Inputs of one floating dtype, channel slices too; K = 0 gives zeros. Sums are f32 (f64 for f64), rounded once:
/// |error| <= K 2^-24 sum|a b| before the rounding. f16 and bf16 products are exact in f32, as on a Tensor Core (where
/// the processor multiplies bf16 itself, subnormal bf16 inputs count as zero). NaN and inf pass.
///
/// ga = gy op(b)^T, gb = op(a)^T gy, summed over what was broadcast. Saves a and b.
struct Matmul {
  struct Params {
    bool transpose_a = false;
    bool transpose_b = false;
  };
  static constexpr OpInfo info{.name = "matmul",
                               .inputs = "a, b",
                               .precision = PrecisionClass::kLow,
                               .family = OpFamily::kProduct,
                               .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
