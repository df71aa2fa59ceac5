#pragma once

#include <optional>

#include "binade/core/ops/reduce.h"

/// Reductions that visit single elements (folds, core/kernels/reduce.h): products, extrema with positions, truth
/// values. Negative axes count from the end. If there is a NaN, it is both the largest and the smallest element; of
/// equal elements the first is taken. Each op throws ShapeError for an axis that x does not have. Extrema throw it also
/// if there are no elements.
namespace binade::ops {

/// y = product of x over `axes`, all axes if empty; 1 if x has no elements. Whole numbers give i64, wrapped around.
/// Computed in double. gx = gy times the product of the other elements, without a division by x. Saves x.
struct Prod {
  using Params = ReduceParams;
  static constexpr OpInfo info{.name = "prod",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.ulp_f32 = 0.51, .ulp_half = 0.51},
                               .family = OpFamily::kReduction};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// y = smallest element over `axes`, all axes if empty. Otherwise like Max.
struct Min {
  using Params = ReduceParams;
  static constexpr OpInfo info{.name = "min",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kMoves,
                               .range = ranges::within};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

struct AlongParams {
  int axis = -1;
  bool keepdim = false;
};

/// The largest or smallest elements along one axis, and their positions (i64). The gradient goes to the element at that
/// position. Saves the positions.
struct MaxAlong {
  using Params = AlongParams;
  static constexpr OpInfo info{.name = "max_along",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kMoves,
                               .range = ranges::largest};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};
struct MinAlong {
  using Params = AlongParams;
  static constexpr OpInfo info{.name = "min_along",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kMoves,
                               .range = ranges::within};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Positions (i64) of the largest or smallest elements along an axis; without an axis, in row-major order of all of x.
struct ArgParams {
  std::optional<int> axis{};
  bool keepdim = false;
};
struct ArgMax {
  using Params = ArgParams;
  static constexpr OpInfo info{
      .name = "argmax", .inputs = "x", .policy_inputs = 0, .differentiable = false, .observed = Observed::kMoves};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};
struct ArgMin {
  using Params = ArgParams;
  static constexpr OpInfo info{
      .name = "argmin", .inputs = "x", .policy_inputs = 0, .differentiable = false, .observed = Observed::kMoves};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};

/// Any is true if at least one element over `axes` (all axes if empty) is not 0, All if no element is 0. NaN counts as
/// not 0. If there are no elements, Any gives false and All gives true.
struct Any {
  using Params = ReduceParams;
  static constexpr OpInfo info{.name = "any",
                               .inputs = "x",
                               .policy_inputs = 0,
                               .differentiable = false,
                               .observed = Observed::kMoves,
                               .range = ranges::probability};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};
struct All {
  using Params = ReduceParams;
  static constexpr OpInfo info{.name = "all",
                               .inputs = "x",
                               .policy_inputs = 0,
                               .differentiable = false,
                               .observed = Observed::kMoves,
                               .range = ranges::probability};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};

/// y = (sum of |x|^p over `axes`)^(1 / p), all axes if empty, for a finite p other than 0; summed in f32 (f64 for f64),
/// in which |x|^p may overflow. gx = gy sign(x) (|x| / y)^(p - 1), 0 where y = 0. Saves x and y. Throws ArgumentError
/// for any other p.
struct Norm {
  struct Params {
    double p = 2;
    std::vector<int> axes{};
    bool keepdim = false;
  };
  static constexpr OpInfo info{.name = "norm",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.safe_low = -0x1p60, .safe_high = 0x1p60, .ulp_f32 = 4},
                               .singularities = {{.input = 0, .at = 0, .derivative_only = true}},
                               .range = ranges::not_negative};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

namespace detail {
/// Returns the sum of whole numbers over the axes of `p`, as i64.
Tensor sum_of_whole(const OpInfo& info, const Tensor& x, const ReduceParams& p);
/// Returns the largest element of whole numbers over the axes of `p`, in their dtype.
Tensor largest_of_whole(const OpInfo& info, const Tensor& x, const ReduceParams& p);
}  // namespace detail

}  // namespace binade::ops
