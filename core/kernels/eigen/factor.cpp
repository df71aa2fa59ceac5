#include <cmath>
#include <cstring>
#include <utility>

#include "binade/core/kernels/cpu/vector16.h"
#include "binade/core/kernels/eigen/triangular.h"

#pragma GCC visibility push(hidden)
#include <Eigen/Cholesky>
#pragma GCC visibility pop

// Recursive factorizations: the halves of a matrix are factored, and most of the work is in products between them.
namespace binade::cpu {
namespace {

constexpr std::int64_t kLeaf = 64;   // up to this many rows, Eigen computes the Cholesky factor
constexpr std::int64_t kSmall = 32;  // up to this many rows, cholesky_small() computes it
constexpr std::int64_t kPanel = 16;  // columns that are eliminated one after the other

/// Returns n / 2, rounded up to a multiple of `unit`.
std::int64_t half(std::int64_t n, std::int64_t unit) { return (n / 2 + unit - 1) / unit * unit; }

template <class T>
Block<const T> constant(const Block<T>& b) {
  return {b.data, b.rows, b.columns, b.stride};
}

/// Returns 1 + the position of the first pivot that is not positive; n if all are positive.
template <class T>
std::int64_t bad_pivot(std::vector<T> a, std::int64_t n) {
  const auto at = [&](std::int64_t i, std::int64_t j) -> T& { return a[static_cast<std::size_t>(i * n + j)]; };
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      for (std::int64_t k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
      if (i == j && at(j, j) <= T(0)) return j + 1;
      at(i, j) = i == j ? std::sqrt(at(i, j)) : at(i, j) / at(j, j);
    }
  }
  return n;  // Eigen found such a pivot, because its sums have another order
}

template <class T>
std::int64_t cholesky_leaf(const Block<T>& a) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Matrix whole(a.rows, a.rows);
  std::vector<T> copy(static_cast<std::size_t>(a.rows * a.rows));
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.rows; ++j)
      copy[static_cast<std::size_t>(i * a.rows + j)] = whole(i, j) = j <= i ? a(i, j) : T(0);
  Eigen::LLT<Eigen::Ref<Matrix>> llt(whole);
  if (llt.info() != Eigen::Success) return bad_pivot(std::move(copy), a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j <= i; ++j) a(i, j) = whole(i, j);
  return 0;
}

/// Subtracts u[k, j] times row k from row j of u, for all rows k above it, in `count` vectors from element `first` on.
template <int count, class T>
void subtract_rows_above(T* u, std::int64_t width, std::int64_t j, std::int64_t first) {
  Vector16<T> sum[count];
  for (int v = 0; v < count; ++v) sum[v] = load16<T>(u + j * width + first + v * kLanes16<T>);
  for (std::int64_t k = 0; k < j; ++k)
    for (int v = 0; v < count; ++v) sum[v] -= u[k * width + j] * load16<T>(u + k * width + first + v * kLanes16<T>);
  for (int v = 0; v < count; ++v) store16(u + j * width + first + v * kLanes16<T>, sum[v]);
}

/// Computes the Cholesky factor l of a, with up to kSmall rows, from the lower triangle of a. Does not use Eigen, whose
/// call would take longer than the arithmetic. Row j of `u` is column j of l. On failure, l is not written.
template <class T>
std::int64_t cholesky_small(const Block<const T>& a, const Block<T>& l) {
  constexpr std::int64_t kLanes = kLanes16<T>;
  alignas(16) T u[kSmall * kSmall];
  const std::int64_t n = a.rows, width = (n + kLanes - 1) / kLanes * kLanes;
  for (std::int64_t j = 0; j < n; ++j) std::fill(u + j * width + n, u + (j + 1) * width, T(0));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) u[j * width + i] = a(i, j);
  for (std::int64_t j = 0; j < n; ++j) {
    T* const row = u + j * width;
    const std::int64_t first = j / kLanes * kLanes;
    std::fill(row + first, row + j, T(0));  // these elements were not initialized; their results are not used
    for (std::int64_t i = first; i < width; i += 4 * kLanes) switch ((width - i) / kLanes) {
        case 1: subtract_rows_above<1>(u, width, j, i); break;
        case 2: subtract_rows_above<2>(u, width, j, i); break;
        case 3: subtract_rows_above<3>(u, width, j, i); break;
        default: subtract_rows_above<4>(u, width, j, i);
      }
    if (row[j] <= T(0)) return j + 1;
    const T root = std::sqrt(row[j]);
    for (std::int64_t i = first; i < width; i += kLanes) store16(row + i, load16<T>(row + i) / root);
    row[j] = root;
  }
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) l(i, j) = u[j * width + i];
  return 0;
}

/// c -= b b^T for the lower triangle of c.
template <class T>
void subtract_square(const Block<T>& c, const Block<const T>& b) {
  constexpr std::int64_t kWhole = 256;
  if (c.rows <= kWhole) return subtract_product<T>(c, b, b, true);
  const std::int64_t h = half(c.rows, kLeaf), rest = c.rows - h;
  const Block<const T> first = b.part(0, 0, h, b.columns), second = b.part(h, 0, rest, b.columns);
  subtract_square(c.part(0, 0, h, h), first);
  subtract_product<T>(c.part(h, 0, rest, h), second, first, true);
  subtract_square(c.part(h, h, rest, rest), second);
}

/// Replaces the lower triangle of a by its Cholesky factor. Returns 1 + the position of a pivot that is not positive,
/// or 0.
template <class T>
std::int64_t cholesky(const Block<T>& a) {
  if (a.rows <= kSmall) return cholesky_small(constant(a), a);
  if (a.rows <= kLeaf) return cholesky_leaf(a);
  const std::int64_t h = half(a.rows, kLeaf), rest = a.rows - h;
  if (const std::int64_t bad = cholesky(a.part(0, 0, h, h)); bad != 0) return bad;
  const Block<T> below = a.part(h, 0, rest, h), other = a.part(h, h, rest, rest);
  solve_right_transposed(constant(a.part(0, 0, h, h)), below);
  subtract_square(other, constant(below));
  const std::int64_t bad = cholesky(other);
  return bad == 0 ? 0 : h + bad;
}

template <class T>
void exchange_rows(const Block<T>& a, std::int64_t i, std::int64_t j) {
  if (i != j) std::swap_ranges(a.data + i * a.stride, a.data + i * a.stride + a.columns, a.data + j * a.stride);
}

/// Eliminates the columns of a panel one after the other.
template <class T>
void lu_panel(const Block<T>& a, std::int64_t* pivots) {
  for (std::int64_t j = 0; j < a.columns; ++j) {
    std::int64_t best = j;
    for (std::int64_t i = j + 1; i < a.rows; ++i)  // the first NaN counts as the largest
      if (!(std::abs(a(i, j)) <= std::abs(a(best, j))) && a(best, j) == a(best, j)) best = i;
    pivots[j] = best;
    exchange_rows(a, j, best);
    const T pivot = a(j, j);
    if (pivot == T(0)) continue;  // the column below the pivot is 0 too
    for (std::int64_t i = j + 1; i < a.rows; ++i) {
      const T factor = a(i, j) /= pivot;
      for (std::int64_t k = j + 1; k < a.columns; ++k) a(i, k) -= factor * a(j, k);
    }
  }
}

/// Replaces a, which has at least as many rows as columns, by its LU factors.
template <class T>
void lu_tall(const Block<T>& a, std::int64_t* pivots) {
  if (a.columns <= kPanel) return lu_panel(a, pivots);
  const std::int64_t h = half(a.columns, kPanel), rest = a.columns - h;
  const Block<T> left = a.part(0, 0, a.rows, h), right = a.part(0, h, a.rows, rest);
  lu_tall(left, pivots);
  for (std::int64_t i = 0; i < h; ++i) exchange_rows(right, i, pivots[i]);
  const Block<T> top = right.part(0, 0, h, rest), bottom = right.part(h, 0, a.rows - h, rest);
  solve_left(constant(left.part(0, 0, h, h)), top, false, false, true);
  subtract_product<T>(bottom, constant(left.part(h, 0, a.rows - h, h)), constant(top));
  lu_tall(bottom, pivots + h);
  for (std::int64_t i = h; i < a.columns; ++i) {
    pivots[i] += h;
    exchange_rows(left, i, pivots[i]);
  }
}

template <class T>
void lu(const LuArgs& args, std::int64_t matrix) {
  const std::int64_t rows = args.rows, columns = args.columns, k = std::min(rows, columns), size = rows * columns;
  T* to = static_cast<T*>(args.lu.data) + matrix * size;
  std::memcpy(to, static_cast<const T*>(args.a.data) + matrix * size, static_cast<std::size_t>(size) * sizeof(T));
  const Block<T> a{to, rows, columns, columns};
  std::int64_t* const pivots = args.pivots + matrix * k;
  lu_tall(a.part(0, 0, rows, k), pivots);
  if (columns > k) {
    const Block<T> right = a.part(0, k, k, columns - k);
    for (std::int64_t i = 0; i < k; ++i) exchange_rows(right, i, pivots[i]);
    solve_left(constant(a.part(0, 0, k, k)), right, false, false, true);
  }
  std::int64_t* const order = args.order + matrix * rows;
  for (std::int64_t i = 0; i < rows; ++i) order[i] = i;
  T parity = 1;
  args.info[matrix] = 0;
  for (std::int64_t i = k; i-- > 0;)
    if (a(i, i) == T(0)) args.info[matrix] = i + 1;
  for (std::int64_t i = 0; i < k; ++i) {
    std::swap(order[i], order[pivots[i]]);
    if (pivots[i] != i) parity = -parity;
  }
  static_cast<T*>(args.parity.data)[matrix] = parity;
}

}  // namespace

void run_cholesky(const CholeskyArgs& a) {
  const double n = static_cast<double>(a.n);
  for_element_type(a.a.dtype, "cholesky", [&]<class T>(T) {
    for_each_matrix(a.batch, n * n * n / 3, [&](std::int64_t i) {
      const T* from = static_cast<const T*>(a.a.data) + i * a.n * a.n;
      const Block<T> l{static_cast<T*>(a.l.data) + i * a.n * a.n, a.n, a.n, a.n};
      if (a.n <= kSmall) {
        a.info[i] = cholesky_small({from, a.n, a.n, a.n}, l);
      } else {
        std::copy_n(from, a.n * a.n, l.data);  // no element below the diagonal depends on those above it
        a.info[i] = cholesky(l);
      }
      for (std::int64_t r = 0; r < a.n; ++r) std::fill(&l(r, r) + 1, &l(r, r) + a.n - r, T(0));
    });
  });
}

void run_lu(const LuArgs& a) {
  const double k = static_cast<double>(std::min(a.rows, a.columns));
  for_element_type(a.a.dtype, "lu", [&]<class T>(T) {
    for_each_matrix(a.batch, k * static_cast<double>(a.rows) * static_cast<double>(a.columns),
                    [&](std::int64_t i) { lu<T>(a, i); });
  });
}

}  // namespace binade::cpu
