#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Params of softmax and log-softmax.
struct AxisParams {
  int axis = -1;  ///< negative numbers count from the end
};

/// y = exp(x - max) / sum(exp(x - max)) over one axis. Maximum and sum are f32 (f64 for f64). -inf is a legal value
/// (a mask) and gives 0. If all values along the axis are -inf, or one is +inf, all results along it are NaN. gx = y
/// (gy - sum(gy y)). Saves y. Throws ShapeError for an axis that x does not have.
struct Softmax {
  using Params = AxisParams;
  static constexpr OpInfo info{.name = "softmax",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.non_finite = NonFinite::kMasks, .ulp_f32 = 8},
                               .observed = Observed::kByKernels,
                               .range = ranges::probability,
                               .mask_inputs = 0b1};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// y = (x - max) - log(sum(exp(x - max))) over one axis. Dtypes, masks and errors are treated as in softmax. gx = gy -
/// exp(y) sum(gy). Saves y.
struct LogSoftmax {
  using Params = AxisParams;
  static constexpr OpInfo info{.name = "log_softmax",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.non_finite = NonFinite::kMasks, .ulp_f32 = 8},
                               .observed = Observed::kByKernels,
                               .range = ranges::not_positive,
                               .mask_inputs = 0b1};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
