#pragma once

#include "binade/core/ops/op.h"

/// Orthogonal decompositions of matrices (…, m, n), batched over the leading dimensions. A CPU computes them in double
/// and rounds once. If a decomposition is unique except for signs, a rule determines the signs (core/kernels/linalg.h):
/// the diagonal of r is not negative; in an eigenvector or a column of u, the first element with at least 0.99 of the
/// largest magnitude is positive. So all processors with the same instruction set for doubles give the same results.
/// Vectors of equal eigenvalues or singular values are not unique; any basis may be returned. A NaN or infinity in a
/// matrix makes its results NaN.
namespace binade::ops {

/// a (…, m, n) = q r with orthonormal columns of q (…, m, k) and an upper triangle r (…, k, n), k = min(m, n). With
/// `complete`, k = m.
///
/// For m >= n: ga = (gq + q copyltu(r gr^T - gq^T q)) r^-T, where copyltu copies the lower triangle to the upper one;
/// for m < n see formulas::qr. ga has infinities or NaN if the first min(m, n) columns are linearly dependent. Saves q
/// and r. Throws ShapeError, DTypeError; backward throws AutogradError for a complete q with m > n, whose last columns
/// are not unique.
struct Qr {
  struct Params {
    bool complete = false;
  };
  static constexpr OpInfo info{.name = "qr", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
  static void check_gradient(const Shape& a, const Params& p);
};

/// a = v diag(w) v^T for a symmetric a (…, n, n), of which only the lower triangle is read. w (…, n) is ascending; each
/// column of v (…, n, n) is an eigenvector.
///
/// ga = v diag(gw) v^T + the symmetric part of v ((v^T gv) / (w_j - w_i)) v^T, in which the diagonal of the quotient
/// counts as 0. ga is symmetric. If gv is given and two eigenvalues are equal, ga has infinities or NaN. Saves w and v.
/// If `vectors` is false, returns w only, unless a backward may follow. Throws ShapeError, DTypeError, and DataError if
/// the iteration does not converge.
struct Eigh {
  struct Params {
    bool vectors = true;
  };
  static constexpr OpInfo info{.name = "eigh", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// a (…, m, n) = u diag(s) vh with s (…, k) descending, k = min(m, n): u (…, m, k) and vh (…, k, n), or with `full`
/// (…, m, m) and (…, n, n).
///
/// The gradient is in formulas::singular_values and formulas::singular_vectors. If u or vh have a gradient, ga has
/// infinities or NaN if two singular values are equal, or one is 0 and m != n. Saves u, s and vh. If `vectors` is
/// false, returns s only, unless a backward may follow. Throws like Eigh; backward throws AutogradError for u or vh
/// with `full` and m != n.
struct Svd {
  struct Params {
    bool full = false;
    bool vectors = true;
  };
  static constexpr OpInfo info{.name = "svd", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
  static void check_gradient(const Shape& a, const Params& p);
};

/// y (…, n, m) = the pseudoinverse of a (…, m, n): vh^T diag(1 / s) u^T, where singular values of at most rtol times
/// the largest one count as 0.
///
///   ga = -y^T gy y^T + (I - a y) gy^T y y^T + y^T y gy^T (I - y a)
///
/// which holds for changes of a that do not change its rank. Source: G. Golub and V. Pereyra, "The differentiation of
/// pseudo-inverses and nonlinear least squares problems" (1973). Saves a and y. Throws like Eigh.
struct Pinv {
  struct Params {
    double rtol = -1;  ///< negative: max(m, n) 2^-23, or 2^-52 in f64
  };
  static constexpr OpInfo info{.name = "pinv", .inputs = "a", .precision = PrecisionClass::kFull};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
  /// Returns the tolerance for a matrix of this shape and dtype.
  static double tolerance(const Shape& a, DType dtype, double rtol);
};

}  // namespace binade::ops
