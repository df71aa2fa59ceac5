#pragma once

#include "binade/core/kernels/cumulate.h"
#include "binade/core/ops/move.h"

namespace binade::ops {

/// Cumulative sum, product or log-sum-exp: y_j is that of x_0 … x_j along `axis` (with `reverse`, of x_j … x_(n-1)). y
/// has x's shape. Running totals are double, are rounded once per element, and are added in an order that depends on
/// the shape alone. Sums and products of integers and bools are i64 and wrap.
///
///   sum:          gx = cumulative sum of gy in the other direction
///   product:      gx_j = y_(j-1) S_j with S_j = gy_j + x_(j+1) S_(j+1), also if factors are 0
///   log-sum-exp:  gx_j = exp(x_j - y_j) S_j with S_j = gy_j + exp(y_j - y_(j+1)) S_(j+1)
///
/// Saves x and y, except for sums. Throws ArgumentError for a bad axis, and DTypeError.
struct Cumulate {
  struct Params {
    int axis = -1;
    Cumulation how = Cumulation::kSum;
    bool reverse = false;           ///< for sums
    const char* name = "cumulate";  ///< the function that the user called, for errors
  };
  static constexpr OpInfo info{.name = "cumulate",
                               .inputs = "x",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.accumulate = DType::f64, .ulp_f32 = 2},
                               .family = OpFamily::kReduction,
                               .observed = Observed::kByScan};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Returns for each position along `axis` the position (i64) of the largest or smallest element up to there: a NaN if
/// there is one, and the last of equal elements. x has any dtype. The op has no gradient.
struct CumulativeExtreme {
  struct Params {
    int axis = -1;
    bool largest = true;
  };
  static constexpr OpInfo info{
      .name = "cumulative_extreme", .inputs = "x", .differentiable = false, .observed = Observed::kMoves};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};

}  // namespace binade::ops
