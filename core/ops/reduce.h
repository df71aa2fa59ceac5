#pragma once

#include <vector>

#include "binade/core/ops/op.h"

/// Reductions over chosen axes. Each adds up in f32 (f64 for f64) in a tree that depends on the shapes alone, never on
/// the thread count: 16 lanes side by side in chunks of 512, at most 32 chunks in a row, those combined pairwise.
namespace binade::ops {

struct ReduceParams {
  std::vector<int> axes{};  ///< negative ones count from the back; none: all of them
  bool keepdim = false;     ///< keeps reduced axes with extent 1
};

/// y = the sum of x over `axes`; 0 where there is nothing to add. gx = gy, repeated. Nothing is saved. Throws
/// ShapeError for an axis that x does not have, ArgumentError for one named twice.
struct Sum {
  using Params = ReduceParams;
  static constexpr OpInfo info{.name = "sum",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .family = OpFamily::kReduction,
                               .observed = Observed::kByKernels,
                               .range = ranges::total};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// y = the sum over `axes` divided by the count; NaN where there is nothing to add, as 0 / 0 is. gx = gy / count.
struct Mean {
  using Params = ReduceParams;
  static constexpr OpInfo info{.name = "mean",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .family = OpFamily::kReduction,
                               .observed = Observed::kByKernels,
                               .range = ranges::average};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// y = the largest over `axes`; NaN where there is one. The gradient is shared equally by all elements that equal y.
/// Saved: x, y. Throws ShapeError when there is nothing to take the largest of.
struct Max {
  using Params = ReduceParams;
  static constexpr OpInfo info{.name = "max",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kMoves,
                               .range = ranges::largest};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// x's shape with 1 at every axis in `axes` (all when empty); the checks of the ops above, in the name of `op`.
Shape keepdim_shape(const Shape& x, const std::vector<int>& axes, std::string_view op);

}  // namespace binade::ops
