#pragma once

#include <cstdint>

/// Gradients of decompositions. Each formula is written once: backward calls it with tensors (TensorAlgebra); a
/// gradient that must be differentiable again calls it with variables (autograd/derivatives/linalg.cpp). `A` has the
/// operations, and A::Value is Tensor or Variable. Matrices are the last two dimensions.
///
/// Source: M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
/// (2008); S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010) for QR;
/// J. Townsend, "Differentiating the singular value decomposition" (2016). The gradient of LU follows from dA = dL U +
/// L dU.
namespace binade::ops::formulas {

/// Returns (x + x^T) / 2.
template <class A, class T = typename A::Value>
T symmetric(const T& x) {
  return A::scaled(A::add(x, A::transposed(x)), 0.5);
}

/// Returns x - x^T.
template <class A, class T = typename A::Value>
T skew(const T& x) {
  return A::sub(x, A::transposed(x));
}

/// a = l l^T: ga = the symmetric part of l^-T phi(l^T gl) l^-1, where phi takes the lower triangle and half of the
/// diagonal.
template <class A, class T = typename A::Value>
T cholesky(const T& l, const T& gl) {
  const T product = A::matmul(l, A::tril(gl, 0), true, false);
  const T phi = A::scaled(A::add(A::tril(product, 0), A::tril(product, -1)), 0.5);
  const T left = A::triangular(l, phi, false, true, false);
  return symmetric<A>(A::triangular(l, A::transposed(left), false, true, false));
}

/// The rows of a, in another order, are l u; both triangles are in `lu`, and `inverse` restores the order. For the
/// square part b: gb = l^-T (tril(l^T gl, -1) + triu(gu u^T)) u^-T. The columns of u beyond it are l^-1 times columns
/// of a, the rows of l beyond it are rows of a times u^-1.
template <class A, class T, class Order>
T lu(const T& lu, const Order& inverse, const T& g) {
  const std::int64_t rows = lu.shape().dim(-2), columns = lu.shape().dim(-1), k = rows < columns ? rows : columns;
  const T eye = A::eye(k, lu), whole = A::narrow(A::narrow(lu, -2, 0, k), -1, 0, k);
  const T l = A::add(A::tril(whole, -1), eye), u = A::triu(whole, 0);
  const T square = A::narrow(A::narrow(g, -2, 0, k), -1, 0, k);
  T gl = A::tril(square, -1), gu = A::triu(square, 0), beside{}, below{};
  if (columns > k) {
    const T more = A::narrow(lu, -1, k, columns - k);
    beside = A::triangular(l, A::narrow(g, -1, k, columns - k), false, true, true);
    gl = A::sub(gl, A::tril(A::matmul(beside, more, false, true), -1));
  }
  if (rows > k) {
    const T more = A::narrow(lu, -2, k, rows - k);
    below = A::transposed(A::triangular(u, A::transposed(A::narrow(g, -2, k, rows - k)), true, false, false));
    gu = A::sub(gu, A::triu(A::matmul(more, below, true, false), 0));
  }
  const T inner = A::add(A::tril(A::matmul(l, gl, true, false), -1), A::triu(A::matmul(gu, u, false, true), 0));
  const T left = A::triangular(l, inner, false, true, true);
  T gb = A::transposed(A::triangular(u, A::transposed(left), true, false, false));
  if (columns > k) gb = A::concat(gb, beside, -1);
  if (rows > k) gb = A::concat(gb, below, -2);
  return A::rows(gb, inverse);
}

/// op(a) x = b, given gb = op(a)^-T gx: ga is -gb x^T, or its transpose if op transposes, at the elements that op
/// reads.
template <class A, class T = typename A::Value>
T triangular_matrix(const T& x, const T& gb, bool upper, bool transpose, bool unit) {
  const T product = A::scaled(transpose ? A::matmul(x, gb, false, true) : A::matmul(gb, x, false, true), -1);
  return upper ? A::triu(product, unit ? 1 : 0) : A::tril(product, unit ? -1 : 0);
}

/// a x = b, given gb = a^-T gx: ga = -gb x^T.
template <class A, class T = typename A::Value>
T solved_matrix(const T& x, const T& gb) {
  return A::scaled(A::matmul(gb, x, false, true), -1);
}

/// y = a^-1: ga = -y^T gy y^T.
template <class A, class T = typename A::Value>
T inverse(const T& y, const T& gy) {
  return A::scaled(A::matmul(A::matmul(y, gy, true, false), y, false, true), -1);
}

/// a = q r with at least as many rows as columns: ga = (gq + q copyltu(m)) r^-T for m = r gr^T - gq^T q, where copyltu
/// copies the lower triangle to the upper one.
template <class A, class T = typename A::Value>
T qr_tall(const T& q, const T& r, const T& gq, const T& gr) {
  const T m = A::sub(A::matmul(r, gr, false, true), A::matmul(gq, q, true, false));
  const T mirrored = A::add(A::tril(m, 0), A::transposed(A::tril(m, -1)));
  const T b = A::add(gq, A::matmul(q, mirrored));
  return A::transposed(A::triangular(r, A::transposed(b), true, false, false));
}

/// Like qr_tall(), for any number of columns. With more columns than rows, a = q [u v] with a square u.
template <class A, class T = typename A::Value>
T qr(const T& q, const T& r, const T& gq, const T& gr) {
  const std::int64_t rows = r.shape().dim(-2), columns = r.shape().dim(-1);
  if (columns <= rows) return qr_tall<A>(q, r, gq, A::triu(gr, 0));
  const T u = A::narrow(r, -1, 0, rows), v = A::narrow(r, -1, rows, columns - rows);
  const T gu = A::triu(A::narrow(gr, -1, 0, rows), 0), gv = A::narrow(gr, -1, rows, columns - rows);
  const T through = A::add(gq, A::matmul(A::matmul(q, v), gv, false, true));
  return A::concat(qr_tall<A>(q, u, through, gu), A::matmul(q, gv), -1);
}

/// Eigenvalues w of a symmetric matrix with eigenvectors v: ga = v diag(gw) v^T.
template <class A, class T = typename A::Value>
T eigenvalues(const T& v, const T& gw) {
  return A::matmul(A::mul(v, A::row(gw)), v, false, true);
}

/// Eigenvectors: ga = the symmetric part of v ((v^T gv) / (w_j - w_i)) v^T, in which the diagonal counts as 0. If two
/// eigenvalues are equal, it is infinite or NaN.
template <class A, class T = typename A::Value>
T eigenvectors(const T& w, const T& v, const T& gv) {
  const T eye = A::eye(w.shape().dim(-1), w), product = A::matmul(v, gv, true, false);
  const T distance = A::add(A::sub(A::row(w), A::column(w)), eye);
  const T inner = A::div(A::sub(product, A::mul(product, eye)), distance);
  return symmetric<A>(A::matmul(A::matmul(v, inner), v, false, true));
}

/// a = u diag(s) vh, reduced: the part of ga that comes from s is u diag(gs) vh.
template <class A, class T = typename A::Value>
T singular_values(const T& u, const T& vh, const T& gs) {
  return A::matmul(A::mul(u, A::row(gs)), vh);
}

/// The part of ga that comes from u and vh:
///   u ((skew(u^T gu) / e) diag(s) + diag(s) (skew(v^T gv) / e)) vh      with e_ij = s_j^2 - s_i^2, and 1 if i = j
///   + (gu - u u^T gu) diag(1 / s) vh + u diag(1 / s) (gvh - gvh v vh)
/// The last two terms are 0 for a square u and vh, and left out. Equal or zero singular values give infinities or NaN.
template <class A, class T = typename A::Value>
T singular_vectors(const T& u, const T& s, const T& vh, const T& gu, const T& gvh) {
  const T eye = A::eye(s.shape().dim(-1), s), row = A::row(s), column = A::column(s);
  const T distance = A::add(A::mul(A::sub(row, column), A::add(row, column)), eye);
  const T uu = A::matmul(u, gu, true, false), vv = A::matmul(vh, gvh, false, true);
  const T inner = A::add(A::mul(A::div(skew<A>(uu), distance), row), A::mul(column, A::div(skew<A>(vv), distance)));
  T ga = A::matmul(A::matmul(u, inner), vh);
  if (u.shape().dim(-2) > u.shape().dim(-1)) {
    const T rest = A::sub(gu, A::matmul(u, uu));
    ga = A::add(ga, A::matmul(A::div(rest, row), vh));
  }
  if (vh.shape().dim(-1) > vh.shape().dim(-2)) {
    const T rest = A::sub(gvh, A::matmul(vv, vh, true, false));
    ga = A::add(ga, A::matmul(u, A::div(rest, column)));
  }
  return ga;
}

/// y = the pseudoinverse of a: ga = -y^T gy y^T + (I - a y) gy^T y y^T + y^T y gy^T (I - y a).
template <class A, class T = typename A::Value>
T pinv(const T& a, const T& y, const T& gy) {
  const T g = A::matmul(gy, y, true, false);  // gy^T y
  const T first = A::scaled(A::transposed(A::matmul(y, g)), -1), right = A::matmul(g, y, false, true);
  const T second = A::sub(right, A::matmul(A::matmul(a, y), right));
  const T rest = A::sub(A::transposed(gy), A::matmul(g, a));
  return A::add(A::add(first, second), A::matmul(A::matmul(y, y, true, false), rest));
}

/// y = exp(a): ga is the upper right block of exp([a^T gy; 0 a^T]).
template <class A, class T = typename A::Value>
T matrix_exp(const T& a, const T& gy) {
  const std::int64_t n = a.shape().dim(-1);
  const T t = A::transposed(a), zero = A::scaled(gy, 0);
  const T whole = A::concat(A::concat(t, gy, -1), A::concat(zero, t, -1), -2);
  return A::narrow(A::narrow(A::matrix_exp(whole), -2, 0, n), -1, n, n);
}

}  // namespace binade::ops::formulas
