#include "binade/cuda/device/decompositions.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/linalg.cuh"

/// QR by reflections, in double: a matrix becomes r and the vectors of the reflections, whose product is q.
namespace binade::cuda {
namespace {

/// Matrices of a batch from number `first` on. a: (rows, columns), q: (rows, width), tau: the smaller extent; v: rows.
struct QrWork {
  QrArgs args{};
  std::int64_t first = 0, count = 0;
  const unsigned long long* largest = nullptr;
  double *a = nullptr, *q = nullptr, *tau = nullptr, *v = nullptr;

  __host__ __device__ std::int64_t reflections() const { return args.rows < args.columns ? args.rows : args.columns; }
};

__global__ void __launch_bounds__(kLinalgThreads) factor_qr(QrWork w) {
  const std::int64_t rows = w.args.rows, columns = w.args.columns, k = w.reflections();
  for (std::int64_t matrix = blockIdx.x; matrix < w.count; matrix += gridDim.x) {
    double* const a = w.a + matrix * rows * columns;
    double* const v = w.v + matrix * rows;
    for (std::int64_t j = 0; j < k; ++j) {
      double* const x = a + j * rows + j;
      const Reflection h = reflection_of(x, 1, rows - j, v);
      reflect(v, h.tau, rows - j, x + rows, columns - j - 1, rows);
      each_of_block(0, rows - j, [&](std::int64_t i) { x[i] = i == 0 ? h.beta : v[i]; });
      if (threadIdx.x == 0) w.tau[matrix * k + j] = h.tau;
      __syncthreads();
    }
  }
}

/// Stores in q the product of the reflections, whose vectors a contains.
__global__ void __launch_bounds__(kLinalgThreads) multiply_reflections(QrWork w) {
  const std::int64_t rows = w.args.rows, width = w.args.width, k = w.reflections();
  for (std::int64_t matrix = blockIdx.x; matrix < w.count; matrix += gridDim.x) {
    const double* const a = w.a + matrix * rows * w.args.columns;
    double* const q = w.q + matrix * rows * width;
    double* const v = w.v + matrix * rows;
    set_identity(q, rows, width);
    for (std::int64_t j = k; j-- > 0;) {
      each_of_block(0, rows - j, [&](std::int64_t i) { v[i] = i == 0 ? 1.0 : a[j * rows + j + i]; });
      __syncthreads();
      reflect(v, w.tau[matrix * k + j], rows - j, q + j * rows + j, width - j, rows);
    }
  }
}

/// Copies the vectors of the reflections to q, for the library.
__global__ void copy_reflections(QrWork w) {
  const std::int64_t rows = w.args.rows, size = rows * w.reflections();
  each_index(w.count * size, [&](std::int64_t i) {
    const std::int64_t matrix = i / size, place = i - matrix * size;
    w.q[matrix * rows * w.args.width + place] = w.a[matrix * rows * w.args.columns + place];
  });
}

/// Returns -1 if row i of r and column i of q must change their signs, NaN if the matrix has no result, otherwise 1.
__device__ double factor_of(const QrWork& w, std::int64_t matrix, std::int64_t i) {
  if (!is_finite_matrix(w.largest[matrix])) return std::numeric_limits<double>::quiet_NaN();
  if (i >= w.reflections()) return 1;
  return w.a[matrix * w.args.rows * w.args.columns + i * w.args.rows + i] < 0 ? -1 : 1;
}

__global__ void store_r(QrWork w) {
  const std::int64_t columns = w.args.columns, size = w.args.width * columns;
  each_index(w.count * size, [&](std::int64_t at) {
    const std::int64_t matrix = at / size, i = at % size / columns, j = at % columns;
    double x = 0;
    if (i <= j) {
      const double from = w.a[matrix * w.args.rows * columns + j * w.args.rows + i];
      x = factor_of(w, matrix, i) * std::ldexp(from, exponent_of(w.largest[matrix]));
    }
    store_at(w.args.r.data, w.args.r.dtype, w.first * size + at, x);
  });
}

__global__ void store_q(QrWork w) {
  const std::int64_t width = w.args.width, size = w.args.rows * width;
  each_index(w.count * size, [&](std::int64_t at) {
    const std::int64_t matrix = at / size, i = at % size / width, j = at % width;
    store_at(w.args.q.data, w.args.q.dtype, w.first * size + at,
             factor_of(w, matrix, j) * w.q[matrix * size + j * w.args.rows + i]);
  });
}

}  // namespace

void run_qr(const QrArgs& args) {
  if (args.batch == 0) return;
  const bool own = fits_block(args.rows, args.columns) || !library_decomposes();
  const std::int64_t size = args.rows * args.columns, q_size = args.rows * args.width;
  const std::int64_t most = matrices_at_a_time(args.batch, size + q_size);
  QrWork w{.args = args};
  const std::int64_t k = w.reflections();
  const Buffer<double> a(most * size), q(most * q_size), tau(most * k), v(own ? most * args.rows : 0);
  const Buffer<unsigned long long> largest(most);
  const Buffer<int> info(1);  // QR does not fail
  w.a = a.data();
  w.q = q.data();
  w.tau = tau.data();
  w.v = v.data();
  w.largest = largest.data();
  for (; w.first < args.batch; w.first += most) {
    w.count = std::min(most, args.batch - w.first);
    read_matrices({.a = args.a,
                   .first = w.first,
                   .count = w.count,
                   .rows = args.rows,
                   .columns = args.columns,
                   .largest = largest.data(),
                   .to = w.a});
    if (own) {
      launch(factor_qr, grid_for(w.count), kLinalgThreads, 0, w);
      launch(multiply_reflections, grid_for(w.count), kLinalgThreads, 0, w);
    } else {
      for (std::int64_t i = 0; i < w.count; ++i)
        library_qr(args.rows, args.columns, w.a + i * size, w.tau + i * k, info.data());
      launch(copy_reflections, element_grid(w.count * args.rows * k), kLinalgThreads, 0, w);
      for (std::int64_t i = 0; i < w.count; ++i)
        library_q(args.rows, args.width, k, w.q + i * q_size, w.tau + i * k, info.data());
    }
    launch(store_r, element_grid(w.count * args.width * args.columns), kLinalgThreads, 0, w);
    launch(store_q, element_grid(w.count * q_size), kLinalgThreads, 0, w);
  }
}

}  // namespace binade::cuda
