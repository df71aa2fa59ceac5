#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Soft Dice loss of probabilities x against t (any dtype), both of one shape, pooled over the whole batch:
///   loss = 1 - (2 sum(x t) + smooth) / (sum(x) + sum(t) + smooth)
/// (Milletari et al., 2016, with plain sums below). All three sums in f32 (f64 for f64), whatever x is stored in. With
/// smooth = 0 and nothing predicted nor present it is 0 / 0 = NaN. gx = gy (N / D - 2 t) / D, N and D the two sides
/// of the fraction; gt the same with x and t exchanged. Saved: x, t and the three sums.
struct Dice {
  struct Params {
    double smooth = 1;
  };
  static constexpr OpInfo info{.name = "dice",
                               .inputs = "x, targets",
                               .precision = PrecisionClass::kFull,
                               .policy_inputs = 1,
                               .family = OpFamily::kProbabilityLoss,
                               .observed = Observed::kByKernels,
                               .targets = {0, 1}};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
