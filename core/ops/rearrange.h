#pragma once

#include <string_view>
#include <vector>

#include "binade/core/kernels/rearrange.h"
#include "binade/core/ops/move.h"

namespace binade::ops {

/// Copies positions of one axis: y[…, j, …] = x[…, map(j), …] for j < count, and `fill` if map(j) gives no position.
/// Flips, rolls, steps, padding, windows and diagonals are such copies (autograd/functions/rearrange.h). x has any
/// dtype.
///
///   gx[…, s, …] = sum of gy[…, j, …] over the j with map(j) = s, in the order of j, in f32 (f64 for f64)
///
/// With `adjoint`, forward computes that sum, from x to y, and map.extent is y's extent; backward copies. x has any
/// dtype if no two j map to the same position, else a floating one. Saves nothing. Throws ArgumentError for a bad axis,
/// and DTypeError.
struct Rearrange {
  struct Params {
    int axis = -1;
    AxisMap map{};
    std::int64_t count = 0;
    bool adjoint = false;
    double fill = 0;
    const char* name = "rearrange";  ///< the function that the user called, for errors
  };
  static constexpr OpInfo info{
      .name = "rearrange", .inputs = "x", .numerics = {.ulp_f32 = 1, .ulp_half = 1}, .observed = Observed::kByScan};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Repeats x along new outer dimensions and along dimensions of extent 1, to shape `dims`; -1 keeps an extent. x has
/// any dtype. gx is gy summed over the repeated dimensions, like the gradient of a broadcast. Saves nothing. Throws
/// ShapeError if x does not broadcast to `dims`.
struct Expand {
  struct Params {
    std::vector<std::int64_t> dims{};
  };
  static constexpr OpInfo info = move_info(OpInfo{.name = "expand", .inputs = "x", .range = ranges::within});

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Throws ArgumentError, which names `op`, if an integer or bool dtype cannot hold `value`. Floating dtypes round it.
void check_fits(std::string_view op, double value, DType dtype);

}  // namespace binade::ops
