#pragma once

#include <vector>

#include "binade/core/ops/op.h"

/// Reductions over chosen axes. They sum in f32 (f64 for f64) in an order that depends on the shapes alone, never on
/// the number of threads: 16 parallel lanes in chunks of 512, at most 32 chunks in sequence, combined pairwise.
namespace binade::ops {

struct ReduceParams {
  std::vector<int> axes{};  ///< negative ones count from the end; empty: all
  bool keepdim = false;     ///< true: reduced axes stay with extent 1
};

/// y = sum of x over `axes`; 0 if there is nothing to add. gx = gy, repeated. Saves nothing. Throws ShapeError for an
/// axis that x does not have, ArgumentError for a repeated one.
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

/// y = sum over `axes` divided by the count; NaN (0 / 0) if there is nothing to add. gx = gy / count.
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

/// y = maximum over `axes`, NaN if there is a NaN. The gradient is divided equally among all elements equal to y. Saves
/// x and y. Throws ShapeError if there are no elements.
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

/// Sums x over the dimensions that broadcasting y to x's shape would repeat: from (4, 3, 5) to y (3, 1) it sums
/// dimensions 0 and 2. Adds in f32 (f64 for f64) in an order that depends on the shapes alone; one rounding. y is
/// contiguous, x of any pitch.
void sum_to(const Tensor& x, Tensor& y);

}  // namespace binade::ops
