#pragma once

#include "binade/core/ops/op.h"

/// Solutions of linear systems by LU factors with pivots. Dtypes and accuracy: linalg_factor.h.
namespace binade::ops {

/// Solves a x = b for a (…, n, n) and b (…, n, m) with the same batch.
///
/// gb = a^-T gx, ga = -gb x^T. Saves a, x and the factors. Throws ShapeError, DTypeError, and DataError, which names
/// matrix and pivot, if a pivot is 0 (the matrix is singular). NaN gives NaN.
struct Solve {
  struct Params {};
  static constexpr OpInfo info{.name = "solve", .inputs = "a, b", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&);
};

/// y = a^-1 for a (…, n, n). ga = -y^T gy y^T. Saves y. Throws like Solve.
struct Inverse {
  struct Params {};
  static constexpr OpInfo info{.name = "inverse", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&);
};

/// y (…) = the determinant of a (…, n, n): the product of the pivots, with the sign of the row exchanges; 1 for n = 0.
/// It overflows easily: see slogdet().
///
/// ga = gy y a^-T, which is gy times the matrix of cofactors. It is finite for a singular matrix too: backward replaces
/// pivots of 0 by 2^-24 (2^-53 in f64) times the largest one, with an error of that size. Saves a, y and the factors.
struct Det {
  struct Params {};
  static constexpr OpInfo info{.name = "det", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&);
};

}  // namespace binade::ops
