#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

/// Linear algebra in double for single matrices. Each function uses the simplest method; if there are two methods, it
/// uses the one that the library does not use.
namespace binade::conformance {

struct Grid {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values{};

  Grid(std::int64_t m, std::int64_t n) : rows(m), columns(n), values(static_cast<std::size_t>(m * n)) {}
  double& operator()(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
  static Grid identity(std::int64_t n) {
    Grid g(n, n);
    for (std::int64_t i = 0; i < n; ++i) g(i, i) = 1;
    return g;
  }
};

inline Grid times(const Grid& a, const Grid& b) {
  Grid c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.columns; ++j)
      for (std::int64_t k = 0; k < a.columns; ++k) c(i, j) += a(i, k) * b(k, j);
  return c;
}

inline Grid turned(const Grid& a) {
  Grid t(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}

/// Gauss-Jordan elimination: returns a^-1 b, and the determinant of a in `det`.
inline Grid eliminated(Grid a, Grid b, double* det = nullptr) {
  double product = 1;
  for (std::int64_t j = 0; j < a.rows; ++j) {
    std::int64_t best = j;
    for (std::int64_t i = j; i < a.rows; ++i)
      if (std::abs(a(i, j)) > std::abs(a(best, j))) best = i;
    if (best != j) product = -product;
    for (std::int64_t k = 0; k < a.columns; ++k) std::swap(a(j, k), a(best, k));
    for (std::int64_t k = 0; k < b.columns; ++k) std::swap(b(j, k), b(best, k));
    const double pivot = a(j, j);
    product *= pivot;
    for (std::int64_t k = 0; k < a.columns; ++k) a(j, k) /= pivot;
    for (std::int64_t k = 0; k < b.columns; ++k) b(j, k) /= pivot;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      const double factor = a(i, j);
      if (i == j) continue;
      for (std::int64_t k = 0; k < a.columns; ++k) a(i, k) -= factor * a(j, k);
      for (std::int64_t k = 0; k < b.columns; ++k) b(i, k) -= factor * b(j, k);
    }
  }
  if (det != nullptr) *det = product;
  return b;
}

inline Grid cholesky_factor(const Grid& a) {
  Grid l(a.rows, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) sum -= l(i, k) * l(j, k);
      l(i, j) = i == j ? std::sqrt(sum) : sum / l(j, j);
    }
  return l;
}

/// LU with row exchanges. Returns both factors in one matrix: l (without its diagonal of ones) below u.
inline Grid lu_factors(Grid a) {
  for (std::int64_t j = 0; j < std::min(a.rows, a.columns); ++j) {
    std::int64_t best = j;
    for (std::int64_t i = j; i < a.rows; ++i)
      if (std::abs(a(i, j)) > std::abs(a(best, j))) best = i;
    for (std::int64_t k = 0; k < a.columns; ++k) std::swap(a(j, k), a(best, k));
    for (std::int64_t i = j + 1; i < a.rows; ++i) {
      a(i, j) /= a(j, j);
      for (std::int64_t k = j + 1; k < a.columns; ++k) a(i, k) -= a(i, j) * a(j, k);
    }
  }
  return a;
}

/// The reduced QR factors, by Gram-Schmidt applied twice. q has min(rows, columns) columns.
inline std::pair<Grid, Grid> orthogonalized(const Grid& a) {
  const std::int64_t k = std::min(a.rows, a.columns);
  Grid q(a.rows, k);
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t i = 0; i < a.rows; ++i) q(i, j) = a(i, j);
    for (int round = 0; round < 2; ++round)
      for (std::int64_t c = 0; c < j; ++c) {
        double dot = 0;
        for (std::int64_t i = 0; i < a.rows; ++i) dot += q(i, c) * q(i, j);
        for (std::int64_t i = 0; i < a.rows; ++i) q(i, j) -= dot * q(i, c);
      }
    double square = 0;
    for (std::int64_t i = 0; i < a.rows; ++i) square += q(i, j) * q(i, j);
    for (std::int64_t i = 0; i < a.rows; ++i) q(i, j) /= std::sqrt(square);
  }
  return {q, times(turned(q), a)};
}

/// Returns the sign that column j must be multiplied by. The library's rule for signs: the first element with at least
/// 0.99 of the column's largest magnitude is positive.
inline double sign_of_column(const Grid& a, std::int64_t j) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) largest = std::max(largest, std::abs(a(i, j)));
  for (std::int64_t i = 0; i < a.rows; ++i)
    if (std::abs(a(i, j)) >= 0.99 * largest) return a(i, j) < 0 ? -1 : 1;
  return 1;
}

/// Rotates pairs of columns of a until they are orthogonal: a v = u diag(s), descending.
struct Singular {
  Grid u, v;
  std::vector<double> s{};
};
inline Singular rotated(Grid a) {  // rows >= columns
  Grid v = Grid::identity(a.columns);
  const auto rotate = [](Grid& g, std::int64_t p, std::int64_t q, double c, double s) {
    for (std::int64_t i = 0; i < g.rows; ++i) {
      const double x = g(i, p), y = g(i, q);
      g(i, p) = c * x - s * y;
      g(i, q) = s * x + c * y;
    }
  };
  for (int sweep = 0; sweep < 40; ++sweep)
    for (std::int64_t p = 0; p < a.columns; ++p)
      for (std::int64_t q = p + 1; q < a.columns; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (std::int64_t i = 0; i < a.rows; ++i) {
          pp += a(i, p) * a(i, p);
          qq += a(i, q) * a(i, q);
          pq += a(i, p) * a(i, q);
        }
        if (pq == 0) continue;
        const double zeta = (qq - pp) / (2 * pq);
        const double t = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t);
        rotate(a, p, q, c, c * t);
        rotate(v, p, q, c, c * t);
      }
  std::vector<std::pair<double, std::int64_t>> order;
  for (std::int64_t j = 0; j < a.columns; ++j) {
    double square = 0;
    for (std::int64_t i = 0; i < a.rows; ++i) square += a(i, j) * a(i, j);
    order.emplace_back(-std::sqrt(square), j);
  }
  std::sort(order.begin(), order.end());
  Singular result{Grid(a.rows, a.columns), Grid(a.columns, a.columns)};
  for (std::int64_t j = 0; j < a.columns; ++j) {
    const auto [negative, from] = order[static_cast<std::size_t>(j)];
    result.s.push_back(-negative);
    for (std::int64_t i = 0; i < a.rows; ++i) result.u(i, j) = a(i, from) / -negative;
    for (std::int64_t i = 0; i < a.columns; ++i) result.v(i, j) = v(i, from);
  }
  return result;
}

/// The singular value decomposition a = u diag(s) v^T with u (m, k) and v (n, k), and the library's signs.
inline Singular singular(const Grid& a) {
  Singular r = a.rows >= a.columns ? rotated(a) : rotated(turned(a));
  if (a.rows < a.columns) std::swap(r.u, r.v);
  for (std::int64_t j = 0; j < r.u.columns; ++j) {
    const double sign = sign_of_column(r.u, j);
    for (std::int64_t i = 0; i < r.u.rows; ++i) r.u(i, j) *= sign;
    for (std::int64_t i = 0; i < r.v.rows; ++i) r.v(i, j) *= sign;
  }
  return r;
}

/// The matrix exponential of a: the power series of exp(a / 2^10), squared 10 times.
inline Grid exponential(Grid a) {
  for (double& x : a.values) x = std::ldexp(x, -10);
  Grid sum = Grid::identity(a.rows), term = sum;
  for (int k = 1; k < 20; ++k) {
    term = times(term, a);
    for (std::size_t i = 0; i < term.values.size(); ++i) sum.values[i] += term.values[i] /= k;
  }
  for (int k = 0; k < 10; ++k) sum = times(sum, sum);
  return sum;
}

}  // namespace binade::conformance
