#pragma once

#include "binade/core/ops/op.h"

/// Weighted sums of table rows, for interpolation at arbitrary positions. A tap is a row that a point reads, with a
/// weight. The three ops are the derivatives of the sum over all taps of weight times the dot product of row and point,
/// by each of these three factors. So the gradients of each op are computed by the other two, to any order.
///
/// index (B, P, T), i64, names rows of a table (B, R, C). A tap with an index outside of [0, R) counts as 0, whatever
/// its weight is. Computed in f32 (f64 if the first input is f64), rounded once. Numbers are added in a fixed order:
/// that of the taps of a point, of the points and taps of a row, or of the columns. Each op saves its inputs and throws
/// ShapeError and DTypeError.
namespace binade::ops {

/// y[b, p] = sum over t of weight[b, p, t] x[b, index[b, p, t]]: x (B, R, C), weight (B, P, T) -> (B, P, C) in x's
/// dtype.
struct WeightedGather {
  struct Params {};
  static constexpr OpInfo info{
      .name = "weighted_gather", .inputs = "x, weight, index", .numerics = {.ulp_f32 = 2}, .policy_inputs = 0b001};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&);
};

/// y[b, r] = sum over the p, t with index[b, p, t] = r of weight[b, p, t] x[b, p]: x (B, P, C) -> (B, rows, C) in x's
/// dtype.
struct WeightedScatter {
  struct Params {
    std::int64_t rows = 0;
  };
  static constexpr OpInfo info{
      .name = "weighted_scatter", .inputs = "x, weight, index", .numerics = {.ulp_f32 = 2}, .policy_inputs = 0b001};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// y[b, p, t] = sum over c of x[b, index[b, p, t], c] point[b, p, c]: x (B, R, C), point (B, P, C) -> (B, P, T).
struct WeightedDot {
  struct Params {};
  static constexpr OpInfo info{.name = "weighted_dot",
                               .inputs = "x, point, index",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.ulp_f32 = 2},
                               .policy_inputs = 0b011};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&);
};

}  // namespace binade::ops
