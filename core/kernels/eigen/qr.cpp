#include "binade/core/kernels/eigen/matrices.h"

#pragma GCC visibility push(hidden)
#include <Eigen/QR>
#pragma GCC visibility pop

// QR by blocks of reflections: Eigen factors panels of columns, and products apply them to the other columns. Computed
// in double and rounded once (decision 0072).
namespace binade::cpu {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kPanel = 32;  // columns of a panel
constexpr std::int64_t kWhole = 64;  // columns of a matrix that Eigen factors as a whole

/// I - v t v^T for the rows from `first` on: the product of the reflections of a panel.
struct Reflections {
  std::int64_t first = 0;
  Matrix v{}, t{};
};

Block<double> block(Matrix& m, std::int64_t row, std::int64_t column) {
  return {m.data() + row * m.cols() + column, m.rows() - row, m.cols() - column, m.cols()};
}
Block<const double> block(const Matrix& m) { return {m.data(), m.rows(), m.cols(), m.cols()}; }

/// c = (I - v t v^T) c, or (I - v t^T v^T) c if `transpose`.
void reflect(const Reflections& h, const Block<double>& c, bool transpose) {
  if (c.columns == 0) return;
  Matrix w = Matrix::Zero(h.v.cols(), c.columns);
  const Matrix vt = h.v.transpose();
  subtract_product<double>(block(w, 0, 0), block(vt), {c.data, c.rows, c.columns, c.stride});
  Matrix scaled(w.rows(), w.cols());
  if (transpose)
    scaled.noalias() = h.t.transpose() * -w;
  else
    scaled.noalias() = h.t * -w;
  subtract_product<double>(c, block(h.v), block(scaled));
}

/// Factors the panel of a at `first`. Stores the upper triangle of the result in a, with zeros below it.
Reflections factor_panel(Matrix& a, std::int64_t first, std::int64_t width) {
  const std::int64_t rows = a.rows() - first;
  const Eigen::HouseholderQR<Matrix> factors(a.block(first, first, rows, width));
  a.block(first, first, rows, width).setZero();
  a.block(first, first, width, width) = factors.matrixQR().topRows(width).triangularView<Eigen::Upper>();
  Reflections h{first, Matrix::Identity(rows, width), Matrix::Zero(width, width)};
  h.v.triangularView<Eigen::StrictlyLower>() = factors.matrixQR();
  for (std::int64_t i = 0; i < width; ++i) {
    const double tau = factors.hCoeffs()(i);
    const Eigen::VectorXd dots = h.v.leftCols(i).transpose() * h.v.col(i);
    h.t.col(i).head(i) = h.t.topLeftCorner(i, i) * dots * -tau;
    h.t(i, i) = tau;
  }
  return h;
}

void factor(Matrix& a, Matrix& q, Matrix& r) {
  const std::int64_t k = std::min(a.rows(), a.cols());
  if (k <= kWhole) {
    const Eigen::HouseholderQR<Matrix> factors(a);
    q = factors.householderQ() * Matrix::Identity(q.rows(), q.cols());
    r.topRows(k) = factors.matrixQR().topRows(k).triangularView<Eigen::Upper>();
    return;
  }
  std::vector<Reflections> panels;
  for (std::int64_t first = 0; first < k; first += kPanel) {
    const std::int64_t width = std::min(kPanel, k - first);
    panels.push_back(factor_panel(a, first, width));
    reflect(panels.back(), block(a, first, first + width), true);
  }
  r.topRows(k) = a.topRows(k);
  q.setIdentity();
  for (std::size_t p = panels.size(); p-- > 0;) reflect(panels[p], block(q, panels[p].first, panels[p].first), false);
}

void qr(const QrArgs& args, std::int64_t matrix) {
  Matrix a(args.rows, args.columns), q(args.rows, args.width), r = Matrix::Zero(args.width, args.columns);
  load(args.a, matrix, a);
  factor(a, q, r);
  for (std::int64_t i = 0; i < std::min(args.rows, args.columns); ++i) {
    if (!(r(i, i) < 0)) continue;
    r.row(i) *= -1;
    q.col(i) *= -1;
  }
  store(q, args.q, matrix);
  store(r, args.r, matrix);
}

}  // namespace

void run_qr(const QrArgs& a) {
  const double work = static_cast<double>(a.rows) * static_cast<double>(a.columns) *
                      static_cast<double>(std::min(a.rows, a.columns));
  for_each_matrix(a.batch, work, [&](std::int64_t i) { qr(a, i); });
}

}  // namespace binade::cpu
