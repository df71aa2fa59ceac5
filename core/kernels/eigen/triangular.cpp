#include "binade/core/kernels/eigen/triangular.h"

#include <cstring>

// Hidden, because a program that is linked with Binade may use Eigen with other settings. Eigen uses threads only if it
// is compiled with OpenMP.
#pragma GCC visibility push(hidden)
#include <Eigen/Core>
#pragma GCC visibility pop

namespace binade::cpu {
namespace {

constexpr std::int64_t kLeaf = 64;     // up to this many rows, Eigen solves; larger triangles are split
constexpr std::int64_t kColumns = 64;  // columns that one thread solves for

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Mapped = Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>>;
template <class T>
using MappedConst = Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>>;

template <class T>
Mapped<T> mapped(const Block<T>& b) {
  return {b.data, b.rows, b.columns, Eigen::OuterStride<>(b.stride)};
}
template <class T>
MappedConst<T> mapped(const Block<const T>& b) {
  return {b.data, b.rows, b.columns, Eigen::OuterStride<>(b.stride)};
}

template <unsigned mode, class T>
void solve_leaf(const Block<const T>& a, const Block<T>& x, bool transpose) {
  const MappedConst<T> matrix = mapped<T>(a);
  Mapped<T> part = mapped<T>(x);
  constexpr unsigned kOther = (mode & Eigen::UnitDiag) | (mode & Eigen::Lower ? Eigen::Upper : Eigen::Lower);
  if (transpose)
    matrix.transpose().template triangularView<kOther>().solveInPlace(part);
  else
    matrix.template triangularView<mode>().solveInPlace(part);
}

template <class T>
void solve_leaf(const Block<const T>& a, const Block<T>& x, bool upper, bool transpose, bool unit) {
  if (upper && unit) return solve_leaf<Eigen::UnitUpper>(a, x, transpose);
  if (upper) return solve_leaf<Eigen::Upper>(a, x, transpose);
  if (unit) return solve_leaf<Eigen::UnitLower>(a, x, transpose);
  solve_leaf<Eigen::Lower>(a, x, transpose);
}

/// Returns the elements of a^T, row by row.
template <class T>
std::vector<T> transposed(const Block<const T>& a) {
  std::vector<T> t(static_cast<std::size_t>(a.rows * a.columns));
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) t[static_cast<std::size_t>(j * a.rows + i)] = a(i, j);
  return t;
}

}  // namespace

template <class T>
void solve_left(const Block<const T>& a, const Block<T>& x, bool upper, bool transpose, bool unit) {
  const std::int64_t n = a.rows;
  if (n == 0 || x.columns == 0) return;
  if (n <= kLeaf) {
    const std::int64_t chunks = (x.columns + kColumns - 1) / kColumns;
    parallel_blocks(chunks, [&](std::int64_t c) {
      const std::int64_t first = c * kColumns;
      solve_leaf(a, x.part(0, first, n, std::min(kColumns, x.columns - first)), upper, transpose, unit);
    });
    return;
  }
  const std::int64_t h = (n / 2 + kLeaf - 1) / kLeaf * kLeaf;
  const Block<T> x1 = x.part(0, 0, h, x.columns), x2 = x.part(h, 0, n - h, x.columns);
  const Block<const T> a11 = a.part(0, 0, h, h), a22 = a.part(h, h, n - h, n - h);
  const Block<const T> off = upper ? a.part(0, h, h, n - h) : a.part(h, 0, n - h, h);
  const auto eliminate = [&](const Block<T>& from, const Block<T>& to) {
    const Block<const T> solved{from.data, from.rows, from.columns, from.stride};
    if (!transpose) return subtract_product<T>(to, off, solved);
    const std::vector<T> t = transposed(off);
    subtract_product<T>(to, {t.data(), off.columns, off.rows, off.rows}, solved);
  };
  if (upper == transpose) {  // op(a) is lower
    solve_left(a11, x1, upper, transpose, unit);
    eliminate(x1, x2);
    solve_left(a22, x2, upper, transpose, unit);
  } else {
    solve_left(a22, x2, upper, transpose, unit);
    eliminate(x2, x1);
    solve_left(a11, x1, upper, transpose, unit);
  }
}

template <class T>
void solve_right_transposed(const Block<const T>& l, const Block<T>& x) {
  const std::int64_t n = l.rows;
  if (n == 0 || x.rows == 0) return;
  if (n <= kLeaf) {
    parallel_for(x.rows, kLeaf, [&](std::int64_t begin, std::int64_t end) {
      const MappedConst<T> matrix = mapped<T>(l);
      Mapped<T> rows = mapped<T>(x.part(begin, 0, end - begin, n));
      matrix.transpose().template triangularView<Eigen::Upper>().template solveInPlace<Eigen::OnTheRight>(rows);
    });
    return;
  }
  const std::int64_t h = (n / 2 + kLeaf - 1) / kLeaf * kLeaf;
  const Block<T> x1 = x.part(0, 0, x.rows, h), x2 = x.part(0, h, x.rows, n - h);
  solve_right_transposed(l.part(0, 0, h, h), x1);
  subtract_product<T>(x2, {x1.data, x1.rows, x1.columns, x1.stride}, l.part(h, 0, n - h, h), true);
  solve_right_transposed(l.part(h, h, n - h, n - h), x2);
}

template void solve_left(const Block<const float>&, const Block<float>&, bool, bool, bool);
template void solve_left(const Block<const double>&, const Block<double>&, bool, bool, bool);
template void solve_right_transposed(const Block<const float>&, const Block<float>&);
template void solve_right_transposed(const Block<const double>&, const Block<double>&);

void run_triangular_solve(const TriangularSolveArgs& a) {
  for_element_type(a.a.dtype, "triangular_solve", [&]<class T>(T) {
    const double n = static_cast<double>(a.n);
    for_each_matrix(a.batch, n * n * static_cast<double>(a.columns), [&](std::int64_t i) {
      const Block<const T> triangle{static_cast<const T*>(a.a.data) + i * a.n * a.n, a.n, a.n, a.n};
      const std::int64_t size = a.n * a.columns;
      T* to = static_cast<T*>(a.x.data) + i * size;
      std::memcpy(to, static_cast<const T*>(a.b.data) + i * size, static_cast<std::size_t>(size) * sizeof(T));
      if (a.info != nullptr) {
        a.info[i] = 0;
        for (std::int64_t j = a.n; j-- > 0 && !a.unit;)
          if (triangle(j, j) == T(0)) a.info[i] = j + 1;
      }
      solve_left<T>(triangle, {to, a.n, a.columns, a.columns}, a.upper, a.transpose, a.unit);
    });
  });
}

}  // namespace binade::cpu
