#pragma once

#include "binade/core/ops/element_losses.h"

namespace binade::ops {

/// Computes the soft Dice loss of probabilities x and targets t (any dtype) of the same shape, pooled over the whole
/// batch:
///   loss = 1 - (2 sum(x t) + smooth) / (sum(x) + sum(t) + smooth)
/// (Milletari et al., 2016, with plain sums in the denominator). The sums are f32 (f64 for f64) for any dtype of x.
/// With smooth = 0 and all sums 0 the loss is 0 / 0 = NaN. gx = gy (N / D - 2 t) / D, where N and D are numerator and
/// denominator of the fraction; gt has x in place of t. Saves x, t and the three sums.
struct Dice {
  struct Params {
    double smooth = 1;
  };
  static constexpr OpInfo info = detail::loss_info(
      OpInfo{.name = "dice", .family = OpFamily::kProbabilityLoss, .targets = {0, 1}});
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
