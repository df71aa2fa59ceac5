#include "binade/cuda/device/decompositions.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/linalg.cuh"

/// Singular values, in double: reflections from both sides make a matrix bidiagonal, and QR steps with shifts make that
/// diagonal. A wide matrix is transposed. Source: G. Golub and C. Van Loan, "Matrix Computations", section 8.6.
namespace binade::cuda {
namespace {

/// Matrices of a batch from number `first` on: a (rows, columns) with rows >= columns, the transposed matrix of the
/// batch if `transposed`; u (rows, left); v (columns, columns) with element (i, j) at i v_row + j v_column. For
/// each matrix, work has `rows` numbers, and each other array has `columns`.
struct SvdWork {
  SvdArgs args{};
  std::int64_t first = 0, count = 0, rows = 0, columns = 0, left = 0;
  bool transposed = false;
  const unsigned long long* largest = nullptr;
  double *a = nullptr, *u = nullptr, *v = nullptr;  ///< u and v: null if they are not wanted
  std::int64_t v_row = 0, v_column = 0;
  double *diagonal = nullptr, *above = nullptr, *tau_left = nullptr, *tau_right = nullptr, *work = nullptr;
  Rotation *rotations_u = nullptr, *rotations_v = nullptr;
  int* info = nullptr;
};

/// Transforms the matrix `a` to bidiagonal form: `d` is the diagonal, `e` the elements above it. The columns of a, from
/// the diagonal down, then hold the vectors of the left reflections, and the rows, right of the diagonal, of the right.
__device__ void make_bidiagonal(const SvdWork& w, double* a, double* d, double* e, double* tau_left, double* tau_right,
                                double* work) {
  const std::int64_t rows = w.rows, columns = w.columns;
  for (std::int64_t j = 0; j < columns; ++j) {
    double* const x = a + j * rows + j;
    const Reflection h = reflection_of(x, 1, rows - j, work);
    reflect(work, h.tau, rows - j, x + rows, columns - j - 1, rows);
    each_of_block(0, rows - j, [&](std::int64_t i) { x[i] = work[i]; });
    if (threadIdx.x == 0) {
      d[j] = h.beta;
      tau_left[j] = h.tau;
    }
    __syncthreads();  // all threads have read the work
    if (j + 1 == columns) return;
    double* const y = x + rows;
    const std::int64_t count = columns - j - 1;
    const Reflection g = reflection_of(y, rows, count, work);
    each_of_block(1, rows - j, [&](std::int64_t i) {
      double dot = 0;
      for (std::int64_t c = 0; c < count; ++c) dot += y[c * rows + i] * work[c];
      dot *= g.tau;
      for (std::int64_t c = 0; c < count; ++c) y[c * rows + i] -= dot * work[c];
    });
    each_of_block(0, count, [&](std::int64_t c) { y[c * rows] = work[c]; });
    if (threadIdx.x == 0) {
      e[j] = g.beta;
      tau_right[j] = g.tau;
    }
    __syncthreads();
  }
}

/// The state of the iteration, in the thread that computes it: elements above the diagonal are 0 from `end` on.
/// Diagonal elements of magnitude `small` or less count as 0.
struct Iteration {
  std::int64_t end, steps_left;
  double small;
  std::int64_t count_u, count_v;  ///< rotations of the last step
};

/// Makes e_(end - 1) 0 by rotations of columns. REQUIRES that d_end is 0.
__device__ void clear_column(double* d, double* e, std::int64_t first, Iteration& at, Rotation* of_v) {
  double x = e[at.end - 1];
  e[at.end - 1] = 0;
  for (std::int64_t k = at.end; k-- > first;) {
    const Rotation g = of_v[at.count_v++] = rotation_of(d[k], x, k, at.end, &d[k]);
    if (k == first) continue;
    x = -g.s * e[k - 1];
    e[k - 1] *= g.c;
  }
}

/// Makes e_i 0 by rotations of rows. REQUIRES that d_i is 0.
__device__ void clear_row(double* d, double* e, std::int64_t i, Iteration& at, Rotation* of_u) {
  double x = e[i];
  e[i] = 0;
  for (std::int64_t k = i + 1; k <= at.end; ++k) {
    const Rotation g = of_u[at.count_u++] = rotation_of(d[k], x, k, i, &d[k]);
    if (k == at.end) continue;
    x = -g.s * e[k];
    e[k] *= g.c;
  }
}

/// Applies a QR step to the rows and columns from `first` to at.end, whose elements above the diagonal are not 0.
__device__ void shifted_step(double* d, double* e, std::int64_t first, Iteration& at, Rotation* of_u, Rotation* of_v) {
  const std::int64_t last = at.end;
  const double before = last - 1 > first ? e[last - 2] : 0.0, d1 = d[last - 1], e1 = e[last - 1], d2 = d[last];
  double y = d[first] * d[first] - wilkinson_shift(d1 * d1 + before * before, d1 * e1, d2 * d2 + e1 * e1);
  double z = d[first] * e[first], length = 0;
  for (std::int64_t k = first; k < last; ++k) {
    const Rotation g = of_v[at.count_v++] = rotation_of(y, z, k, k + 1, &length);
    if (k > first) e[k - 1] = length;
    y = g.c * d[k] + g.s * e[k];
    e[k] = g.c * e[k] - g.s * d[k];
    z = g.s * d[k + 1];
    d[k + 1] *= g.c;
    const Rotation h = of_u[at.count_u++] = rotation_of(y, z, k, k + 1, &d[k]);
    const double right = e[k];
    e[k] = h.c * right + h.s * d[k + 1];
    d[k + 1] = h.c * d[k + 1] - h.s * right;
    if (k + 1 == last) continue;
    y = e[k];
    z = h.s * e[k + 1];
    e[k + 1] *= h.c;
  }
}

/// Applies one step to the last part of the bidiagonal matrix that is not diagonal yet. Returns 1, 0 if there is no
/// such part, or -1 if there were too many steps.
__device__ int qr_step(double* d, double* e, Iteration& at, Rotation* of_u, Rotation* of_v) {
  at.count_u = at.count_v = 0;
  while (at.end > 0) {
    std::int64_t first = at.end;
    while (first > 0 && !is_negligible(e[first - 1], d[first - 1], d[first])) --first;
    if (first > 0) e[first - 1] = 0;
    if (first == at.end) {
      --at.end;
      continue;
    }
    if (at.steps_left-- == 0) return -1;
    std::int64_t zero = at.end;
    while (zero >= first && std::fabs(d[zero]) > at.small) --zero;
    if (zero < first) {
      shifted_step(d, e, first, at, of_u, of_v);
    } else {
      d[zero] = 0;
      if (zero == at.end)
        clear_column(d, e, first, at, of_v);
      else
        clear_row(d, e, zero, at, of_u);
    }
    return 1;
  }
  return 0;
}

/// Stores the products of the reflections from the left in u, and of those from the right in v.
__device__ void multiply_reflections(const SvdWork& w, const double* a, double* u, double* v, const double* tau_left,
                                     const double* tau_right, double* work) {
  const std::int64_t rows = w.rows, columns = w.columns;
  set_identity(u, rows, w.left);
  for (std::int64_t j = columns; j-- > 0;)
    reflect(a + j * rows + j, tau_left[j], rows - j, u + j * rows + j, w.left - j, rows);
  set_identity(v, columns, columns);
  for (std::int64_t j = columns - 1; j-- > 0;) {
    const std::int64_t count = columns - j - 1;
    each_of_block(0, count, [&](std::int64_t c) { work[c] = a[(j + 1 + c) * rows + j]; });
    __syncthreads();
    reflect(work, tau_right[j], count, v + (j + 1) * (columns + 1), count, columns);
  }
}

/// Returns the magnitude of the bidiagonal matrix: a bound of its largest singular value, within a factor of 2.
__device__ double magnitude_of(const double* d, const double* e, std::int64_t n) {
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    largest = Largest::combine(largest, std::fabs(d[i]) + (i + 1 < n ? std::fabs(e[i]) : 0.0));
  return largest;
}

__global__ void __launch_bounds__(kLinalgThreads) decompose(SvdWork w) {
  __shared__ std::int64_t of_step[3];  // the result of qr_step(), and its numbers of rotations
  const std::int64_t rows = w.rows, n = w.columns;
  for (std::int64_t matrix = blockIdx.x; matrix < w.count; matrix += gridDim.x) {
    double* const a = w.a + matrix * rows * n;
    double* const u = w.u == nullptr ? nullptr : w.u + matrix * rows * w.left;
    double* const v = w.u == nullptr ? nullptr : w.v + matrix * n * n;
    double *const d = w.diagonal + matrix * n, *const e = w.above + matrix * n;
    double *const tau_left = w.tau_left + matrix * n, *const tau_right = w.tau_right + matrix * n;
    Rotation *const of_u = w.rotations_u + matrix * n, *const of_v = w.rotations_v + matrix * n;
    make_bidiagonal(w, a, d, e, tau_left, tau_right, w.work + matrix * rows);
    __syncthreads();
    if (u != nullptr) multiply_reflections(w, a, u, v, tau_left, tau_right, w.work + matrix * rows);
    Iteration at{n - 1, 40 * n, 0, 0, 0};
    if (threadIdx.x == 0) at.small = 0x1p-53 * magnitude_of(d, e, n);
    std::int64_t result = 1;
    while (result > 0) {
      if (threadIdx.x == 0) {
        of_step[0] = qr_step(d, e, at, of_u, of_v);
        of_step[1] = at.count_u;
        of_step[2] = at.count_v;
      }
      __syncthreads();
      result = of_step[0];
      if (u != nullptr && result > 0) {
        rotate(u, rows, of_u, of_step[1]);
        rotate(v, n, of_v, of_step[2]);
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) w.info[matrix] = result < 0 ? 1 : 0;
  }
}

/// Vectors in the columns of a matrix of a workspace.
struct Vectors {
  const double* data;
  std::int64_t row, column, length, count;  ///< element (i, j) is at i row + j column
  __device__ const double* operator[](std::int64_t j) const { return data + j * column; }
};

/// Stores values in descending order, and vectors with the sign rule of SvdArgs. A warp stores a value and its vectors.
__global__ void store_singular(SvdWork w) {
  const std::int64_t n = w.columns, all = w.left > n ? w.left : n, lane = threadIdx.x % kWarp;
  const std::int64_t warps = blockDim.x / kWarp;
  for (std::int64_t at = blockIdx.x * warps + threadIdx.x / kWarp; at < w.count * all; at += gridDim.x * warps) {
    const std::int64_t matrix = at / all, j = at % all, to = w.first + matrix;
    const double* const values = w.diagonal + matrix * n;
    const bool finite = is_finite_matrix(w.largest[matrix]);
    const double wrong = std::numeric_limits<double>::quiet_NaN();
    std::int64_t rank = j;
    double sign_of_value = 1;
    if (j < n) {
      const double value = std::fabs(values[j]);
      sign_of_value = values[j] < 0 ? -1 : 1;
      rank = rank_of(values, n, [&](double other, std::int64_t i) {
        return std::fabs(other) > value || (std::fabs(other) == value && i < j);
      });
      if (lane == 0)
        store_at(w.args.s.data, w.args.s.dtype, to * n + rank,
                 finite ? std::ldexp(value, exponent_of(w.largest[matrix])) : wrong);
    }
    if (lane == 0 && j == 0) w.args.info[to] = finite && w.info[matrix] != 0 ? 1 : 0;
    if (w.u == nullptr || w.args.u.data == nullptr) continue;
    const Vectors tall{w.u + matrix * w.rows * w.left, 1, w.rows, w.rows, w.left};
    const Vectors other{w.v + matrix * n * n, w.v_row, w.v_column, n, n};
    const Vectors& left = w.transposed ? other : tall;
    const Vectors& right = w.transposed ? tall : other;
    double sign = 1;
    if (j < left.count) {
      sign = finite ? sign_of_vector(left[j], left.row, left.length) : wrong;
      for (std::int64_t i = lane; i < left.length; i += kWarp)
        store_at(w.args.u.data, w.args.u.dtype, (to * left.length + i) * left.count + rank,
                 sign * left[j][i * left.row]);
    }
    if (j >= right.count) continue;
    if (j >= n) sign = finite ? sign_of_vector(right[j], right.row, right.length) : wrong;
    for (std::int64_t i = lane; i < right.length; i += kWarp)
      store_at(w.args.vh.data, w.args.vh.dtype, (to * right.count + rank) * right.length + i,
               sign * sign_of_value * right[j][i * right.row]);
  }
}

}  // namespace

void run_svd(const SvdArgs& args) {
  if (args.batch == 0) return;
  const std::int64_t rows = std::max(args.rows, args.columns), n = std::min(args.rows, args.columns);
  const std::int64_t left = args.full ? rows : n;
  const bool own = fits_block(rows, n) || !library_decomposes();
  // The library always computes vectors, so that the values do not depend on whether they are wanted.
  const bool vectors = !own || args.u.data != nullptr;
  const std::int64_t most = matrices_at_a_time(args.batch, rows * n + rows * left + n * n);
  const Buffer<double> a(most * rows * n), u(vectors ? most * rows * left : 0), v(vectors ? most * n * n : 0);
  const Buffer<double> numbers(4 * most * n), work(own ? most * rows : 0);
  const Buffer<Rotation> rotations(own ? 2 * most * n : 0);
  const Buffer<unsigned long long> largest(most);
  const Buffer<int> info(most);
  const auto part = [&](std::int64_t i) { return numbers.data() + i * most * n; };
  SvdWork w{.args = args,
            .rows = rows,
            .columns = n,
            .left = left,
            .transposed = args.rows < args.columns,
            .largest = largest.data(),
            .a = a.data(),
            .u = u.data(),
            .v = v.data(),
            .v_row = own ? 1 : n,
            .v_column = own ? n : 1,
            .diagonal = part(0),
            .above = part(1),
            .tau_left = part(2),
            .tau_right = part(3),
            .work = work.data(),
            .rotations_u = rotations.data(),
            .rotations_v = own ? rotations.data() + most * n : nullptr,
            .info = info.data()};
  for (; w.first < args.batch; w.first += most) {
    w.count = std::min(most, args.batch - w.first);
    read_matrices({.a = args.a,
                   .first = w.first,
                   .count = w.count,
                   .rows = args.rows,
                   .columns = args.columns,
                   .transposed = w.transposed,
                   .largest = largest.data(),
                   .to = w.a});
    if (own)
      launch(decompose, grid_for(w.count), kLinalgThreads, 0, w);
    else
      for (std::int64_t i = 0; i < w.count; ++i)
        library_svd(rows, n, args.full, w.a + i * rows * n, w.u + i * rows * left, w.diagonal + i * n, w.v + i * n * n,
                    w.info + i);
    launch(store_singular, grid_for(ceil_div(w.count * std::max(left, n), kLinalgThreads / kWarp)), kLinalgThreads, 0,
           w);
  }
}

}  // namespace binade::cuda
