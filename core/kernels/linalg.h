#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

/// Decompositions of batches of matrices and solutions of triangular systems. All matrices are contiguous, row by row,
/// one after the other, of f32 or f64. `info`, one number per matrix and in the memory of the device, is 0 if a matrix
/// could be processed; otherwise it says why not. A NaN in a matrix gives NaN results, which is not a failure. Extents
/// are at least 1. The results do not depend on the number of threads, nor on the other matrices of the batch.
namespace binade {

/// a = l l^T. Reads the lower triangle of a (n, n). Elements of l above the diagonal are 0. info = 1 + the position of
/// the first pivot that is not positive.
struct CholeskyArgs {
  In a{};
  Out l{};
  std::int64_t batch = 0, n = 0;
  std::int64_t* info = nullptr;
};

/// LU with partial pivoting: a (rows, columns) with permuted rows = l u. `lu` stores the unit lower triangle l and the
/// upper triangle u. The pivot of a column is its largest remaining magnitude, the first of equal ones. Step i
/// exchanges rows i and pivots[i], for i < min(rows, columns); row i of l u is row order[i] of a; parity is -1 for an
/// odd number of exchanges, else 1. info = 1 + the position of the first pivot that is 0.
struct LuArgs {
  In a{};
  Out lu{};
  std::int64_t batch = 0, rows = 0, columns = 0;
  std::int64_t* pivots = nullptr;
  std::int64_t* order = nullptr;
  Out parity{};
  std::int64_t* info = nullptr;
};

/// op(a) x = b, where op(a) is the upper or lower triangle of a (n, n), or its transpose. With `unit`, the diagonal is
/// 1 and is not read. b and x are (n, columns). info = 1 + the position of the first 0 on the diagonal; x then has
/// infinities or NaN. `info` may be null.
struct TriangularSolveArgs {
  In a{}, b{};
  Out x{};
  std::int64_t batch = 0, n = 0, columns = 0;
  bool upper = false, transpose = false, unit = false;
  std::int64_t* info = nullptr;
};

/// a (rows, columns) = q r with orthonormal columns of q (rows, width) and the upper triangle r (width, columns), whose
/// diagonal is not negative. `width` is min(rows, columns) or rows.
struct QrArgs {
  In a{};
  Out q{}, r{};
  std::int64_t batch = 0, rows = 0, columns = 0, width = 0;
};

/// a = vectors diag(values) vectors^T for a symmetric a (n, n). Reads its lower triangle. Values are ascending.
/// The sign of an eigenvector is such that its first element with at least 0.99 of the largest magnitude is positive.
/// vectors.data is null if they are not wanted. info = 1: the iteration did not converge.
struct EighArgs {
  In a{};
  Out values{}, vectors{};
  std::int64_t batch = 0, n = 0;
  std::int64_t* info = nullptr;
};

/// a (rows, columns) = u diag(s) vh, s descending. u is (rows, k) and vh (k, columns) for k = min(rows, columns), or,
/// with `full`, (rows, rows) and (columns, columns). The sign of a column of u is chosen as in EighArgs, and the row of
/// vh changes sign with it. Further rows of vh get a sign by the same rule. u.data and vh.data may be null: not wanted.
struct SvdArgs {
  In a{};
  Out u{}, s{}, vh{};
  std::int64_t batch = 0, rows = 0, columns = 0;
  bool full = false;
  std::int64_t* info = nullptr;
};

}  // namespace binade
