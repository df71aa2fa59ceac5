#include <algorithm>
#include <cmath>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/linalg.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/linalg_exp.h"
#include "binade/core/ops/linalg_factor.h"
#include "binade/core/ops/linalg_solve.h"
#include "binade/core/ops/linalg_spectral.h"
#include "tests/conformance/linalg_reference.h"
#include "tests/conformance/registry.h"

// Linear algebra. All matrices have condition numbers below 4 and distinct eigenvalues, so that errors stay near n
// roundings of the largest element (more in matrix_exp, which squares) and derivatives exist.
namespace binade::conformance {
namespace {

using Values = std::vector<Variable>;

struct Extents {
  const char* name;
  std::vector<std::int64_t> batch;
  std::int64_t rows, columns;
  Shape shape() const {
    std::vector<std::int64_t> dims = batch;
    dims.push_back(rows);
    dims.push_back(columns);
    return Shape(std::span<const std::int64_t>(dims));
  }
  Shape with_columns(std::int64_t n) const { return shape().with_dim(-1, n); }
};

const Extents kSquare[] = {{"one_by_one", {}, 1, 1},    {"small", {}, 5, 5},
                           {"batches", {2, 3}, 4, 4},   {"empty", {}, 0, 0},
                           {"no_batch", {0}, 3, 3},     {"of_twenty", {}, 20, 20},
                           {"one_of_batch", {1}, 6, 6}, {"large", {}, 80, 80},
                           {"two_by_two", {}, 2, 2},    {"deep_batch", {2, 1, 2}, 3, 3},
                           {"of_nine", {}, 9, 9},       {"of_seventeen", {3}, 17, 17}};
const Extents kAny[] = {{"square", {}, 5, 5},     {"tall", {2}, 7, 4},      {"wide", {2, 1}, 3, 6},
                        {"column", {}, 4, 1},     {"row", {}, 1, 4},        {"no_rows", {2}, 0, 3},
                        {"no_columns", {}, 3, 0}, {"one_by_one", {}, 1, 1}, {"of_twenty", {}, 20, 18},
                        {"two_by_two", {}, 2, 2}, {"no_batch", {0}, 3, 2},  {"deep_batch", {2, 2}, 4, 3}};

enum class Kind { kDiagonal, kAntidiagonal, kSymmetric, kSteps, kSymmetricSteps };

/// Returns matrices of small random numbers. Depending on `kind`, adds 2 to the diagonal, 2 to the other diagonal (so
/// that rows are exchanged), or different whole numbers to the diagonal.
Tensor matrices(const Extents& e, std::uint64_t tag, Kind kind) {
  const double high = 0.5 / std::sqrt(static_cast<double>(std::max<std::int64_t>(e.rows, 1)));
  Tensor x = random(e.shape(), tag, -high, high);
  double* values = x.numel() > 0 ? x.mutable_data<double>() : nullptr;
  const std::int64_t m = e.rows, n = e.columns;
  const bool mirrored = kind == Kind::kSymmetric || kind == Kind::kSymmetricSteps;
  const bool steps = kind == Kind::kSteps || kind == Kind::kSymmetricSteps;
  for (std::int64_t first = 0; first < x.numel(); first += m * n)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double& at = values[first + i * n + j];
        if (mirrored && j < i) values[first + j * n + i] = at;
        if (kind == Kind::kAntidiagonal ? i + j == std::min(m, n) - 1 : i == j)
          at += steps ? 1.0 + static_cast<double>(i * 3 % 7 + i / 7 * 7) : 2;
      }
  return x;
}

Grid grid_of(const Array& x, std::int64_t matrix) {
  Grid g(x.shape[-2], x.shape[-1]);
  for (std::int64_t i = 0; i < g.rows * g.columns; ++i)
    g.values[static_cast<std::size_t>(i)] = x[matrix * g.rows * g.columns + i];
  return g;
}

/// Applies f to each matrix, or each pair of matrices. Error bound: for each row or column, `roundings` roundings of
/// the largest result.
template <class F>
std::function<Expected(const std::vector<Array>&)> reference(F f, double roundings = 8) {
  return [=](const std::vector<Array>& in) {
    Expected e;
    std::int64_t batch = 1;
    for (int d = 0; d < in[0].shape.rank() - 2; ++d) batch *= in[0].shape[d];
    for (std::int64_t b = 0; b < batch; ++b) {
      std::vector<Grid> grids;
      for (const Array& x : in) grids.push_back(grid_of(x, b));
      const std::vector<double> values = f(grids);
      double largest = 0;
      for (const double v : values) largest = std::max(largest, std::abs(v));
      for (const double v : values) {
        e.values.push_back(v);
        e.terms.push_back(roundings * static_cast<double>(std::max(in[0].shape[-1], in[0].shape[-2])));
        e.magnitude.push_back(largest);
      }
    }
    return e;
  };
}

template <class R, class F>
void add(std::vector<Case>& cases, const OpInfo& info, const std::string& name, std::vector<Tensor> inputs, R run, F f,
         double roundings = 8) {
  cases.push_back({.info = &info,
                   .name = name,
                   .inputs = std::move(inputs),
                   .run = run,
                   .reference = reference(f, roundings),
                   .poison = false});
}

using Grids = const std::vector<Grid>&;

/// Returns the symmetric part of x; exactly x if x is symmetric.
Variable symmetric(const Variable& x) { return (x + transpose(x)) * 0.5; }

void add_factors(std::vector<Case>& cases, const Extents& e) {
  add(
      cases, ops::Cholesky::info, e.name, {matrices(e, 1, Kind::kSymmetric)},
      [](const Values& x) { return cholesky(symmetric(x[0])); }, [](Grids g) { return cholesky_factor(g[0]).values; });
  add(
      cases, ops::Inverse::info, e.name, {matrices(e, 2, Kind::kAntidiagonal)},
      [](const Values& x) { return inverse(x[0]); },
      [](Grids g) { return eliminated(g[0], Grid::identity(g[0].rows)).values; });
  add(
      cases, ops::Det::info, e.name, {matrices(e, 3, Kind::kAntidiagonal)},
      [](const Values& x) { return det(x[0] * 0.5); },
      [](Grids g) {
        double det = 0;
        eliminated(g[0], Grid(g[0].rows, 0), &det);
        return std::vector{std::ldexp(det, -static_cast<int>(g[0].rows))};
      });
  for (const std::int64_t columns : {std::int64_t{3}, std::int64_t{0}})
    add(
        cases, ops::Solve::info, std::string(e.name) + (columns == 0 ? "_of_none" : ""),
        {matrices(e, 4, Kind::kAntidiagonal), random(e.with_columns(columns), 5, -1, 1)},
        [](const Values& x) { return solve(x[0], x[1]); }, [](Grids g) { return eliminated(g[0], g[1]).values; });
  add(
      cases, ops::MatrixExp::info, e.name, {matrices(e, 6, Kind::kDiagonal)},
      [](const Values& x) { return matrix_exp(x[0] * 4.0); },
      [](Grids g) {
        Grid a = g[0];
        for (double& x : a.values) x *= 4;
        return exponential(a).values;
      },
      40);
  for (const bool upper : {false, true})
    for (const bool transpose_a : {false, true})
      add(
          cases, ops::TriangularSolve::info,
          std::string(e.name) + (upper ? "_upper" : "_lower") + (transpose_a ? "_transposed" : "_unit"),
          {matrices(e, 7, Kind::kDiagonal), random(e.with_columns(e.rows > 50 ? 70 : 2), 8, -1, 1)},
          [=](const Values& x) {
            return triangular_solve(x[0], x[1], {.upper = upper, .unit = !transpose_a, .transpose = transpose_a});
          },
          [=](Grids g) {
            Grid a = g[0];
            for (std::int64_t i = 0; i < a.rows; ++i)
              for (std::int64_t j = 0; j < a.rows; ++j) {
                if (upper ? j < i : j > i) a(i, j) = 0;
                if (i == j && !transpose_a) a(i, j) = 1;
              }
            return eliminated(transpose_a ? turned(a) : a, g[1]).values;
          });
}

void add_lu(std::vector<Case>& cases, const Extents& e) {
  add(
      cases, ops::Lu::info, e.name, {matrices(e, 9, Kind::kAntidiagonal)},
      [](const Values& x) { return lu_factor(x[0]).lu; }, [](Grids g) { return lu_factors(g[0]).values; });
}

void add_orthogonal(std::vector<Case>& cases, const Extents& e) {
  const Tensor a = matrices(e, 10, Kind::kDiagonal), steps = matrices(e, 11, Kind::kSteps);
  const std::string name = e.name;
  add(
      cases, ops::Qr::info, name + "_q", {a}, [](const Values& x) { return qr(x[0]).q; },
      [](Grids g) { return orthogonalized(g[0]).first.values; });
  add(
      cases, ops::Qr::info, name + "_r", {a}, [](const Values& x) { return qr(x[0]).r; },
      [](Grids g) { return orthogonalized(g[0]).second.values; });
  add(
      cases, ops::Svd::info, name + "_u", {steps}, [](const Values& x) { return svd(x[0], false).u; },
      [](Grids g) { return singular(g[0]).u.values; });
  add(
      cases, ops::Svd::info, name + "_s", {steps}, [](const Values& x) { return svd(x[0], true).s; },
      [](Grids g) { return singular(g[0]).s; });
  add(
      cases, ops::Svd::info, name + "_vh", {steps}, [](const Values& x) { return svd(x[0], false).vh; },
      [](Grids g) { return turned(singular(g[0]).v).values; });
  add(
      cases, ops::Pinv::info, name, {a}, [](const Values& x) { return pinv(x[0]); },
      [](Grids g) {  // of full rank: (a^T a)^-1 a^T, or a^T (a a^T)^-1
        const Grid &x = g[0], t = turned(x);
        if (x.rows >= x.columns) return eliminated(times(t, x), t).values;
        return turned(eliminated(times(x, t), x)).values;
      });
}

void add_eigen(std::vector<Case>& cases, const Extents& e) {
  // The matrices are symmetric and positive definite, so that their SVD has the eigenvalues and eigenvectors.
  const Tensor a = matrices(e, 12, Kind::kSymmetricSteps);
  const auto ascending = [](std::vector<double> s) {
    std::reverse(s.begin(), s.end());
    return s;
  };
  add(
      cases, ops::Eigh::info, std::string(e.name) + "_values", {a},
      [](const Values& x) { return eigvalsh(symmetric(x[0])); }, [=](Grids g) { return ascending(singular(g[0]).s); });
  add(
      cases, ops::Eigh::info, std::string(e.name) + "_vectors", {a},
      [](const Values& x) { return eigh(symmetric(x[0])).vectors; },
      [=](Grids g) {
        const Grid u = singular(g[0]).u;
        Grid v(u.rows, u.columns);
        for (std::int64_t i = 0; i < u.rows; ++i)
          for (std::int64_t j = 0; j < u.columns; ++j) v(i, j) = u(i, u.columns - 1 - j);
        return v.values;
      });
}

}  // namespace

std::vector<Case> linalg_cases() {
  std::vector<Case> cases;
  for (const Extents& e : kSquare) add_factors(cases, e);
  for (const Extents& e : kSquare)
    if (e.rows < 50) add_eigen(cases, e);
  for (const Extents& e : kAny) add_lu(cases, e);
  add_lu(cases, {"large", {}, 90, 70});
  for (const Extents& e : kAny) add_orthogonal(cases, e);
  return cases;
}

}  // namespace binade::conformance
