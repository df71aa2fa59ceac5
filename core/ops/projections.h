#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Three linear layers of one input, their results side by side: y = x [w1; w2; w3]^T + [b1, b2, b3]. x (..., in), may
/// be a channel slice; w_i (out_i, in); b_i (out_i), all of them or none; y (..., out_1 + out_2 + out_3).
///
/// One product each for y, gx, the three gw and the three gb. It reads weights and writes their gradients in place
/// where the three lie below one another in memory, as parameters that an optimizer holds do (optim/flat_parameters.h,
/// docs/decisions/0026-query-key-value-in-one-product.md); else through a copy, to the same bits.
///
/// y, gw and gb are those of three ops::Linear, on the CPU bit for bit (a GPU's library may choose other kernels). gx =
/// gy [w1; w2; w3] is one chain of sums rounded once, where three layers round three products and their sums. dtypes,
/// errors and NaN as in ops::Linear: a NaN in w_i reaches the channels of part i only, and all of gx. Saves x and w_i.
struct Projections {
  struct Params {};
  static constexpr int kParts = 3;
  static constexpr OpInfo info{.name = "projections",
                               .inputs = "x, w1, w2, w3, bias1?, bias2?, bias3?",
                               .precision = PrecisionClass::kLow,
                               .policy_inputs = 0b0001111,
                               .low_on_gpu = 0b1110000,
                               .family = OpFamily::kProduct,
                               .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
