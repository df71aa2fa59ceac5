#include "binade/cuda/device/decompositions.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/linalg.cuh"

/// Eigenvalues of symmetric matrices, in double: reflections make a matrix tridiagonal, and QR steps with shifts make
/// that diagonal. Source: G. Golub and C. Van Loan, "Matrix Computations", section 8.3.
namespace binade::cuda {
namespace {

/// Matrices of a batch from number `first` on. a and vectors: (n, n); the other arrays: n numbers.
struct EighWork {
  EighArgs args{};
  std::int64_t first = 0, count = 0;
  const unsigned long long* largest = nullptr;
  double *a = nullptr, *vectors = nullptr;  ///< vectors: null if they are not wanted
  double *diagonal = nullptr, *coupling = nullptr, *tau = nullptr, *v = nullptr, *products = nullptr;
  Rotation* rotations = nullptr;
  int* info = nullptr;
};

/// Transforms the matrix `a` to tridiagonal form. Its columns then hold, below the diagonal, the reflections' vectors.
__device__ void make_tridiagonal(double* a, std::int64_t n, double* diagonal, double* coupling, double* tau, double* v,
                                 double* products) {
  const std::int64_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (std::int64_t j = 0; j + 1 < n; ++j) {
    const std::int64_t count = n - j - 1;
    double *const x = a + j * n + j + 1, *const rest = x + n;  // column j below the diagonal; the columns after it
    const Reflection h = reflection_of(x, 1, count, v);
    if (threadIdx.x == 0) {
      diagonal[j] = a[j * n + j];
      coupling[j] = h.beta;
      tau[j] = h.tau;
    }
    each_of_block(0, count, [&](std::int64_t i) { x[i] = v[i]; });
    double dot = 0;
    for (std::int64_t c = warp; c < count; c += kLinalgThreads / kWarp) {
      double sum = 0;
      for (std::int64_t i = lane; i < count; i += kWarp) sum += rest[c * n + i] * v[i];
      sum = h.tau * fold_warp<Adding>(sum);
      if (lane != 0) continue;
      products[c] = sum;
      dot += sum * v[c];
    }
    dot = fold_block<Adding, kLinalgThreads>(dot);
    const double part = -0.5 * h.tau * dot;
    each_of_block(0, count, [&](std::int64_t i) { products[i] += part * v[i]; });
    __syncthreads();
    for (std::int64_t c = warp; c < count; c += kLinalgThreads / kWarp)
      for (std::int64_t i = lane; i < count; i += kWarp) rest[c * n + i] -= v[i] * products[c] + products[i] * v[c];
    __syncthreads();
  }
  if (threadIdx.x == 0) diagonal[n - 1] = a[n * n - 1];
  __syncthreads();
}

/// The state of the iteration, in the thread that computes it: couplings from `end` on are 0.
struct Iteration {
  std::int64_t end, steps_left;
};

/// Applies one QR step to the last part of the tridiagonal matrix whose couplings are not 0. Returns the number of
/// rotations: 0 if the matrix is diagonal, -1 if there were too many steps.
__device__ std::int64_t qr_step(double* d, double* e, Iteration& at, Rotation* rotations) {
  while (at.end > 0) {
    const std::int64_t last = at.end;
    std::int64_t first = last;
    while (first > 0 && !is_negligible(e[first - 1], d[first - 1], d[first])) --first;
    if (first > 0) e[first - 1] = 0;
    if (first == last) {
      --at.end;
      continue;
    }
    if (at.steps_left-- == 0) return -1;
    double x = d[first] - wilkinson_shift(d[last - 1], e[last - 1], d[last]), z = e[first];
    for (std::int64_t k = first; k < last; ++k) {
      double length = 0;
      const Rotation g = rotation_of(x, z, k, k + 1, &length);
      rotations[k - first] = g;
      if (k > first) e[k - 1] = length;
      const double upper = d[k], lower = d[k + 1], between = e[k];
      d[k] = g.c * g.c * upper + 2 * g.c * g.s * between + g.s * g.s * lower;
      d[k + 1] = g.s * g.s * upper - 2 * g.c * g.s * between + g.c * g.c * lower;
      e[k] = g.c * g.s * (lower - upper) + (g.c * g.c - g.s * g.s) * between;
      if (k + 1 == last) continue;
      x = e[k];
      z = g.s * e[k + 1];
      e[k + 1] *= g.c;
    }
    return last - first;
  }
  return 0;
}

__global__ void __launch_bounds__(kLinalgThreads) decompose(EighWork w) {
  __shared__ std::int64_t rotations_of_step;
  const std::int64_t n = w.args.n;
  for (std::int64_t matrix = blockIdx.x; matrix < w.count; matrix += gridDim.x) {
    double* const a = w.a + matrix * n * n;
    double* const q = w.vectors == nullptr ? nullptr : w.vectors + matrix * n * n;
    double *const d = w.diagonal + matrix * n, *const e = w.coupling + matrix * n, *const tau = w.tau + matrix * n;
    Rotation* const rotations = w.rotations + matrix * n;
    make_tridiagonal(a, n, d, e, tau, w.v + matrix * n, w.products + matrix * n);
    if (q != nullptr) {
      set_identity(q, n, n);
      for (std::int64_t j = n - 1; j-- > 0;)
        reflect(a + j * n + j + 1, tau[j], n - j - 1, q + (j + 1) * (n + 1), n - j - 1, n);
    }
    Iteration at{n - 1, 40 * n};
    std::int64_t count = 1;
    while (count > 0) {
      if (threadIdx.x == 0) rotations_of_step = qr_step(d, e, at, rotations);
      __syncthreads();
      count = rotations_of_step;
      if (q != nullptr && count > 0) rotate(q, n, rotations, count);
      __syncthreads();
    }
    if (threadIdx.x == 0) w.info[matrix] = count < 0 ? 1 : 0;
  }
}

/// Stores values in ascending order, and vectors with the sign rule of EighArgs. A warp stores a value and its vector.
__global__ void store_eigen(EighWork w) {
  const std::int64_t n = w.args.n, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  for (std::int64_t at = blockIdx.x * warps + threadIdx.x / kWarp; at < w.count * n; at += gridDim.x * warps) {
    const std::int64_t matrix = at / n, j = at % n, to = w.first + matrix;
    const double* const values = w.diagonal + matrix * n;
    const bool finite = is_finite_matrix(w.largest[matrix]);
    const double value = values[j], wrong = std::numeric_limits<double>::quiet_NaN();
    const std::int64_t rank = rank_of(values, n, [&](double other, std::int64_t i) {
      return other < value || (other == value && i < j);
    });
    if (lane == 0) {
      store_at(w.args.values.data, w.args.values.dtype, to * n + rank,
               finite ? std::ldexp(value, exponent_of(w.largest[matrix])) : wrong);
      if (j == 0) w.args.info[to] = finite && w.info[matrix] != 0 ? 1 : 0;
    }
    if (w.vectors == nullptr || w.args.vectors.data == nullptr) continue;
    const double* const v = w.vectors + matrix * n * n + j * n;
    const double sign = finite ? sign_of_vector(v, 1, n) : wrong;
    for (std::int64_t i = lane; i < n; i += kWarp)
      store_at(w.args.vectors.data, w.args.vectors.dtype, (to * n + i) * n + rank, sign * v[i]);
  }
}

}  // namespace

void run_eigh(const EighArgs& args) {
  if (args.batch == 0) return;
  const std::int64_t n = args.n, size = n * n;
  const bool own = fits_block(n, n) || !library_decomposes(), wanted = args.vectors.data != nullptr;
  const std::int64_t most = matrices_at_a_time(args.batch, 2 * size);
  // The library replaces a by its vectors. It always computes them, so that the values do not depend on `wanted`.
  const Buffer<double> a(most * size), q(own && wanted ? most * size : 0), numbers(5 * most * n);
  const Buffer<Rotation> rotations(own ? most * n : 0);
  const Buffer<unsigned long long> largest(most);
  const Buffer<int> info(most);
  const auto part = [&](std::int64_t i) { return numbers.data() + i * most * n; };
  EighWork w{.args = args,
             .largest = largest.data(),
             .a = a.data(),
             .vectors = own ? q.data() : a.data(),
             .diagonal = part(0),
             .coupling = part(1),
             .tau = part(2),
             .v = part(3),
             .products = part(4),
             .rotations = rotations.data(),
             .info = info.data()};
  for (; w.first < args.batch; w.first += most) {
    w.count = std::min(most, args.batch - w.first);
    read_matrices({.a = args.a,
                   .first = w.first,
                   .count = w.count,
                   .rows = n,
                   .columns = n,
                   .lower = true,
                   .largest = largest.data(),
                   .to = w.a});
    if (own)
      launch(decompose, grid_for(w.count), kLinalgThreads, 0, w);
    else
      for (std::int64_t i = 0; i < w.count; ++i) library_eigh(n, w.a + i * size, w.diagonal + i * n, w.info + i);
    launch(store_eigen, grid_for(ceil_div(w.count * n, kLinalgThreads / kWarp)), kLinalgThreads, 0, w);
  }
}

}  // namespace binade::cuda
