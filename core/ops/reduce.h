#pragma once

#include <vector>

#include "binade/core/ops/op.h"

/// Reductions over chosen axes. They sum in f32 (f64 for f64) in an order that depends on the shapes alone, never on
/// the number of threads. A CPU sums chunks of 512 elements of a row in 64 lanes, adds up to 32 chunks one after the
/// other, and adds these sums pairwise.
namespace binade::ops {

struct ReduceParams {
  std::vector<int> axes{};  ///< negative ones count from the end; empty: all
  bool keepdim = false;     ///< true: reduced axes stay with extent 1
};

/// y = sum of x over `axes`; 0 if x has no elements. Whole numbers and truth values give i64. gx = gy, repeated along
/// `axes`. Saves nothing. Throws ShapeError for an axis that x does not have, ArgumentError for a repeated one.
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

/// y = mean of x over `axes`: the sum divided by the number n of its terms; NaN (0 / 0) if n = 0. gx = gy / n.
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

/// Returns x's shape with extent 1 at every axis in `axes`, or at all axes if `axes` is empty. Throws ShapeError for an
/// axis that x does not have and ArgumentError for a repeated one, with the name `op`.
Shape keepdim_shape(const Shape& x, const std::vector<int>& axes, std::string_view op);

/// Returns the shape of a reduction's result: `kept`, which has extent 1 at the reduced axes, if p.keepdim, else x's
/// shape without these axes.
Shape visible_shape(const Shape& x, const Shape& kept, const ReduceParams& p);
/// Sums x to y. y has the rank of x, and extent 1 along the axes that are summed.
void sum_to_kept(const Tensor& x, Tensor& y);
/// Stores the gradient of an extremum y, with extent 1 at the reduced axes: gy, divided equally among the elements of x
/// that equal y.
void share_among_equal(const Tensor& x, const Tensor& y, const Tensor& gy, GradSink& gx);

/// Sums x to the shape of y, over the dimensions in which y would be repeated if it were broadcast to x: for x (4, 3,
/// 5) and y (3, 1) these are dimensions 0 and 2. Adds in f32 (f64 for f64) in an order that depends on the shapes
/// alone, and rounds once. y must be contiguous; x may be a channel slice.
void sum_to(const Tensor& x, Tensor& y);

}  // namespace binade::ops
