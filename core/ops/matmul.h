#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Matrix product y = op(a) op(b) over the last two dimensions, where op(X) is X or its transpose. The leading
/// dimensions are batches and broadcast as in NumPy.
///
///   a (..., M, K), or (..., K, M) with transpose_a;  b (..., K, N), or (..., N, K) with transpose_b;  y (..., M, N).
///
/// Inputs have one floating dtype and may be channel slices; K = 0 gives zeros. Sums are f32 (f64 for f64), rounded
/// once: |error| <= K 2^-24 sum|a b| before rounding. Products of f16 and bf16 are exact in f32, as on a Tensor Core
/// (if the processor itself multiplies bf16, it treats subnormal inputs as zero). NaN and inf propagate.
///
/// ga = gy op(b)^T, gb = op(a)^T gy, summed over broadcast dimensions. Saves a and b.
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
