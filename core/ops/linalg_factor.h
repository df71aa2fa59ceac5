#pragma once

#include "binade/core/ops/op.h"

/// Factorizations and triangular systems of matrices (…, n, n), batched over the leading dimensions. f16 and bf16 are
/// read, computed in f32, and give f32. The forward error of a result grows with the condition number of the matrix, so
/// that no bound in ulp holds for all inputs.
namespace binade::ops {

/// a = l l^T for a symmetric positive definite a (…, n, n), of which only the lower triangle is read. l is lower
/// triangular; its diagonal is positive, which makes it unique.
///
/// ga is the symmetric part of l^-T phi(l^T gl) l^-1, where phi takes the lower triangle and half of the diagonal.
/// Saves l. Throws ShapeError, DTypeError, and DataError, which names matrix and pivot, if a matrix is not positive
/// definite. NaN gives NaN.
struct Cholesky {
  struct Params {};
  static constexpr OpInfo info{.name = "cholesky", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&);
};

/// Returns lu (…, m, n), pivots (…, min(m, n)) and order (…, m), both i64: rows `order` of a (…, m, n) are l u, and lu
/// holds the unit lower triangle l and the upper triangle u. Step i exchanged rows i and pivots[i]. The pivot is the
/// element of the column with the largest magnitude, the first of equal ones. A singular matrix is no error: u has a 0
/// on its diagonal, but the gradient has infinities or NaN.
///
/// For a square a: the rows `order` of ga are l^-T (tril(l^T gl, -1) + triu(gu u^T)) u^-T. Saves lu and the inverse
/// permutation of `order`.
struct Lu {
  struct Params {};
  static constexpr OpInfo info{.name = "lu", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&);
};

/// Solves op(a) x = b, where op(a) is one triangle of a (…, n, n), or its transpose; b is (…, n, m) with the same
/// batch.
///
/// gb = op(a)^-T gx; ga = -gb x^T (-x gb^T if `transpose`) at the elements that are read. Saves a and x. Throws
/// ShapeError, DTypeError, and, if `checked`, DataError with matrix and position of a 0 on the diagonal.
struct TriangularSolve {
  struct Params {
    bool upper = false;
    bool transpose = false;
    bool unit = false;    ///< the diagonal is 1 and is not read
    bool checked = true;  ///< false: a 0 on the diagonal gives infinities or NaN
  };
  static constexpr OpInfo info{.name = "triangular_solve", .inputs = "a, b", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
