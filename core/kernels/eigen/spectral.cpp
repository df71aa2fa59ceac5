#include <cmath>
#include <limits>

#include "binade/core/kernels/eigen/matrices.h"

#pragma GCC visibility push(hidden)
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>
#pragma GCC visibility pop

// Eigenvalues and singular values. They are computed in double and rounded once, as rare functions are (decision 0065):
// iterations in float would need twice the code, and lose digits of small values.
namespace binade::cpu {
namespace {

using Matrix = Eigen::MatrixXd;

Matrix matrix_at(In a, std::int64_t position, std::int64_t rows, std::int64_t columns) {
  Matrix m(rows, columns);
  load(a, position, m);
  return m;
}

Matrix nan(std::int64_t rows, std::int64_t columns) {
  return Matrix::Constant(rows, columns, std::numeric_limits<double>::quiet_NaN());
}

/// Returns true if the sign of a vector must change: its first element with at least 0.99 of the largest magnitude is
/// negative. Elements of nearly the largest magnitude count as equal, because rounding decides which of them is larger.
template <class V>
bool needs_sign_flip(const V& v) {
  const double least = 0.99 * v.cwiseAbs().maxCoeff();
  for (std::int64_t i = 0; i < v.size(); ++i)
    if (std::abs(v(i)) >= least) return v(i) < 0;
  return false;
}

void eigh(const EighArgs& a, std::int64_t matrix) {
  const Matrix m = matrix_at(a.a, matrix, a.n, a.n).selfadjointView<Eigen::Lower>();
  a.info[matrix] = 0;
  if (!m.allFinite()) {
    store(nan(a.n, 1), a.values, matrix);
    return store(nan(a.n, a.n), a.vectors, matrix);
  }
  const bool wanted = a.vectors.data != nullptr;
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(m, wanted ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  a.info[matrix] = solver.info() == Eigen::Success ? 0 : 1;
  store(solver.eigenvalues(), a.values, matrix);
  if (!wanted) return;
  Matrix vectors = solver.eigenvectors();
  for (std::int64_t j = 0; j < a.n; ++j)
    if (needs_sign_flip(vectors.col(j))) vectors.col(j) *= -1;
  store(vectors, a.vectors, matrix);
}

void svd(const SvdArgs& a, std::int64_t matrix) {
  const std::int64_t k = std::min(a.rows, a.columns), left = a.full ? a.rows : k, right = a.full ? a.columns : k;
  const Matrix m = matrix_at(a.a, matrix, a.rows, a.columns);
  a.info[matrix] = 0;
  if (!m.allFinite()) {
    store(nan(k, 1), a.s, matrix);
    store(nan(a.rows, left), a.u, matrix);
    return store(nan(right, a.columns), a.vh, matrix);
  }
  const bool wanted = a.u.data != nullptr;
  const unsigned vectors = wanted && a.full ? Eigen::ComputeFullU | Eigen::ComputeFullV
                                            : Eigen::ComputeThinU | Eigen::ComputeThinV;
  // Without vectors, Eigen sums in another order, so that singular values would depend on whether vectors are wanted.
  const Eigen::BDCSVD<Matrix> solver(m, vectors);
  a.info[matrix] = solver.info() == Eigen::Success ? 0 : 1;
  store(solver.singularValues(), a.s, matrix);
  if (!wanted) return;
  Matrix u = solver.matrixU(), v = solver.matrixV();
  for (std::int64_t j = 0; j < left; ++j) {
    if (!needs_sign_flip(u.col(j))) continue;
    u.col(j) *= -1;
    if (j < k) v.col(j) *= -1;
  }
  for (std::int64_t j = k; j < right; ++j)
    if (needs_sign_flip(v.col(j))) v.col(j) *= -1;
  store(u, a.u, matrix);
  store(v.transpose(), a.vh, matrix);
}

/// Calls body(i) for all matrices of a batch, each on one thread.
template <class F>
void for_each_on_one_thread(std::int64_t batch, std::int64_t rows, std::int64_t columns, F&& body) {
  constexpr double kGrain = 1 << 14;
  const double work = static_cast<double>(rows) * static_cast<double>(columns) *
                      static_cast<double>(std::min(rows, columns));
  const auto grain = static_cast<std::int64_t>(std::max(1.0, kGrain / std::max(work, 1.0)));
  parallel_for(batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace

void run_eigh(const EighArgs& a) {
  for_each_on_one_thread(a.batch, a.n, a.n, [&](std::int64_t i) { eigh(a, i); });
}
void run_svd(const SvdArgs& a) {
  for_each_on_one_thread(a.batch, a.rows, a.columns, [&](std::int64_t i) { svd(a, i); });
}

}  // namespace binade::cpu
