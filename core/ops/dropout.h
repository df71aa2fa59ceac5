#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Sets each element of x to 0 with probability p, independently of the others; otherwise divides it by 1 - p
/// (Srivastava et al., 2014). Element i is kept if word i of the call's random stream, cut to 24 bits, is at least p
/// 2^24; recompute, replay and resume keep the same elements. Saves nothing, because backward draws the same words. A
/// NaN that is kept stays NaN. With p = 0 all elements are kept, with p = 1 all are dropped. Throws ArgumentError
/// unless 0 <= p <= 1.
struct Dropout {
  struct Params {
    double p = 0.5;
  };
  static ValueRange range(const RangeInputs& in, const Params& p) {
    const double factor = 1 / (1 - p.p);
    const RangeInputs::Input kept[] = {{in[0]}, {{factor, factor}}};
    return hull(ranges::product({kept}), {0, 0});
  }
  static constexpr OpInfo info{.name = "dropout",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 1, .ulp_half = 1},
                               .observed = Observed::kByKernels,
                               .range = typed_range<range>};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
