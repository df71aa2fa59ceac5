#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// y = exp(a) = I + a + a^2 / 2! + … for a (…, n, n): a Pade approximant of degree 13 (7 in f32) of a / 2^s, squared s
/// times, with the smallest s for which its error is below the rounding error. Source: N. Higham, "The scaling and
/// squaring method for the matrix exponential revisited" (2005). Dtypes and accuracy: linalg_factor.h.
///
/// ga is the upper right block of exp([a^T gy; 0 a^T]). Saves a. Throws ShapeError, DTypeError. A NaN or infinity in a
/// matrix makes its result NaN.
struct MatrixExp {
  struct Params {};
  static constexpr OpInfo info{.name = "matrix_exp", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&);
};

}  // namespace binade::ops
