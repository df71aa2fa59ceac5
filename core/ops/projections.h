#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Computes three linear layers of the same input, with their results side by side: y = x [w1; w2; w3]^T + [b1, b2,
/// b3]. x (..., in) may be a channel slice; w_i (out_i, in); b_i (out_i), either all three or none; y (..., out_1 +
/// out_2 + out_3).
///
/// y, gx and the gradients of all three weights take one product each; one sum computes the gradients of all biases. If
/// the three weights are adjacent in memory, as an optimizer places them (optim/flat_parameters.h,
/// docs/decisions/0026-query-key-value-in-one-product.md), they are read and their gradients are written in place.
/// Otherwise they are copied, and the bits are the same.
///
/// y, gw_i and gb_i equal those of three ops::Linear, bit for bit on the CPU (a GPU library may choose other
/// algorithms). gx = gy [w1; w2; w3] is one sum, rounded once, whereas three layers round three products and their
/// sums. Dtypes, errors and NaN are treated as in ops::Linear: a NaN in w_i affects the channels of part i and all of
/// gx. Saves x and w_i.
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
