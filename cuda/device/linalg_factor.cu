#include <type_traits>

#include "binade/cuda/device/decompositions.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/linalg.cuh"

/// Cholesky and LU factors, computed in the dtype of the matrix.
namespace binade::cuda {
namespace {

constexpr int kSide = 16;  // threads of a block in each direction, where they form a square
static_assert(kSide * kSide == kLinalgThreads);

/// Calls f(row, column) for this thread's elements of [begin, rows) x [begin, columns).
template <class F>
__device__ __forceinline__ void each_of_square(std::int64_t begin, std::int64_t rows, std::int64_t columns, F&& f) {
  for (std::int64_t i = begin + threadIdx.x / kSide; i < rows; i += kSide)
    for (std::int64_t j = begin + threadIdx.x % kSide; j < columns; j += kSide) f(i, j);
}

// ---- Cholesky

/// Copies the lower triangle of a to l, with zeros above it. If `has_nonfinite` is not null, sets it to 1 for each
/// matrix whose triangle has a NaN or an infinity.
template <class T>
__global__ void copy_lower(CholeskyArgs a, int* has_nonfinite) {
  const std::int64_t size = a.n * a.n;
  each_index(a.batch * size, [&](std::int64_t i) {
    const std::int64_t place = i % size;
    const bool read = place % a.n <= place / a.n;
    const T x = read ? static_cast<const T*>(a.a.data)[i] : T(0);
    if (has_nonfinite != nullptr && x - x != T(0)) has_nonfinite[i / size] = 1;
    static_cast<T*>(a.l.data)[i] = x;
  });
}

/// Replaces the lower triangles in l by their factors. With `only`, computes just the matrices that it marks, from a.
template <class T>
__global__ void __launch_bounds__(kLinalgThreads) factor_cholesky(CholeskyArgs a, const int* only) {
  for (std::int64_t matrix = blockIdx.x; matrix < a.batch; matrix += gridDim.x) {
    if (only != nullptr && only[matrix] == 0) continue;
    T* const l = static_cast<T*>(a.l.data) + matrix * a.n * a.n;
    if (only != nullptr) {
      const T* const from = static_cast<const T*>(a.a.data) + matrix * a.n * a.n;
      each_of_square(0, a.n, a.n,
                     [&](std::int64_t i, std::int64_t j) { l[i * a.n + j] = j <= i ? from[i * a.n + j] : T(0); });
      __syncthreads();
    }
    std::int64_t bad = 0;
    for (std::int64_t j = 0; j < a.n && bad == 0; ++j) {
      const T pivot = l[j * a.n + j];
      __syncthreads();  // all threads have read the pivot
      if (pivot <= T(0)) {
        bad = j + 1;
        continue;
      }
      const T root = std::sqrt(pivot);
      each_of_block(j, a.n, [&](std::int64_t i) { l[i * a.n + j] = i == j ? root : l[i * a.n + j] / root; });
      __syncthreads();
      each_of_square(j + 1, a.n, a.n, [&](std::int64_t i, std::int64_t k) {
        if (k <= i) l[i * a.n + k] -= l[i * a.n + j] * l[k * a.n + j];
      });
      __syncthreads();
    }
    if (threadIdx.x == 0) a.info[matrix] = bad;
  }
}

/// Converts the library's 32-bit numbers to 64 bits.
__global__ void store_info(std::int64_t* to, const int* from, std::int64_t count) {
  each_index(count, [&](std::int64_t i) { to[i] = from[i]; });
}

/// The library takes the rows of a matrix for columns, so that its upper factor is l.
template <class T>
void cholesky_by_library(const CholeskyArgs& a) {
  const Buffer<int> infos(2 * a.batch);
  int *const info = infos.data(), *const has_nonfinite = info + a.batch;
  check(cudaMemsetAsync(info, 0, static_cast<std::size_t>(2 * a.batch) * sizeof(int), context().stream), "info");
  launch(copy_lower<T>, element_grid(a.batch * a.n * a.n), kLinalgThreads, 0, a, has_nonfinite);
  for (std::int64_t i = 0; i < a.batch; ++i)
    library_cholesky(std::is_same_v<T, double>, a.n, static_cast<T*>(a.l.data) + i * a.n * a.n, info + i);
  launch(store_info, element_grid(a.batch), kLinalgThreads, 0, a.info, static_cast<const int*>(info), a.batch);
  launch(factor_cholesky<T>, grid_for(a.batch), kLinalgThreads, 0, a, static_cast<const int*>(has_nonfinite));
}

template <class T>
void cholesky(const CholeskyArgs& a) {
  if (!fits_block(a.n, a.n) && library_decomposes()) return cholesky_by_library<T>(a);
  launch(copy_lower<T>, element_grid(a.batch * a.n * a.n), kLinalgThreads, 0, a, static_cast<int*>(nullptr));
  launch(factor_cholesky<T>, grid_for(a.batch), kLinalgThreads, 0, a, static_cast<const int*>(nullptr));
}

// ---- LU

/// A row that may become the next pivot.
template <class T>
struct Candidate {
  T value;  ///< magnitude
  std::int64_t row;
};

/// Returns the better pivot: NaN before numbers, then the larger magnitude, then the first row.
template <class T>
__device__ Candidate<T> better_of(const Candidate<T>& a, const Candidate<T>& b) {
  const bool nan_a = a.value != a.value, nan_b = b.value != b.value;
  const bool equal = nan_a || nan_b ? nan_a == nan_b : a.value == b.value;
  if (equal) return a.row < b.row ? a : b;
  if (nan_a || nan_b) return nan_a ? a : b;
  return a.value > b.value ? a : b;
}

/// Returns the pivot of column j among the rows from j on, in all threads.
template <class T>
__device__ std::int64_t pivot_of(const T* lu, std::int64_t j, std::int64_t rows, std::int64_t columns) {
  __shared__ Candidate<T> best_of_warp[kLinalgThreads / kWarp];
  Candidate<T> best{T(-1), rows};
  each_of_block(j, rows, [&](std::int64_t i) { best = better_of(best, {std::fabs(lu[i * columns + j]), i}); });
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    best = better_of(best, {__shfl_xor_sync(0xffffffffu, best.value, distance),
                            __shfl_xor_sync(0xffffffffu, best.row, distance)});
  if (threadIdx.x % kWarp == 0) best_of_warp[threadIdx.x / kWarp] = best;
  __syncthreads();
  for (int w = 0; w < kLinalgThreads / kWarp; ++w) best = better_of(best, best_of_warp[w]);
  __syncthreads();  // the next call writes to best_of_warp
  return best.row;
}

/// Factors the matrices of a into lu. With `only`, just those that it marks.
template <class T>
__global__ void __launch_bounds__(kLinalgThreads) factor_lu(LuArgs a, const int* only) {
  const std::int64_t rows = a.rows, columns = a.columns, k = rows < columns ? rows : columns;
  for (std::int64_t matrix = blockIdx.x; matrix < a.batch; matrix += gridDim.x) {
    if (only != nullptr && only[matrix] == 0) continue;
    T* const lu = static_cast<T*>(a.lu.data) + matrix * rows * columns;
    const T* const from = static_cast<const T*>(a.a.data) + matrix * rows * columns;
    each_of_block(0, rows * columns, [&](std::int64_t i) { lu[i] = from[i]; });
    __syncthreads();
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t best = pivot_of(lu, j, rows, columns);
      if (threadIdx.x == 0) a.pivots[matrix * k + j] = best;
      if (best != j)
        each_of_block(0, columns, [&](std::int64_t c) {
          const T x = lu[j * columns + c];
          lu[j * columns + c] = lu[best * columns + c];
          lu[best * columns + c] = x;
        });
      __syncthreads();
      const T pivot = lu[j * columns + j];
      if (pivot == T(0)) continue;  // all of the column below is 0
      each_of_block(j + 1, rows, [&](std::int64_t i) { lu[i * columns + j] /= pivot; });
      __syncthreads();
      each_of_square(j + 1, rows, columns, [&](std::int64_t i, std::int64_t c) {
        lu[i * columns + c] -= lu[i * columns + j] * lu[j * columns + c];
      });
      __syncthreads();
    }
  }
}

/// Stores, for each matrix, the order of rows, the parity of exchanges, and the position of a pivot of 0.
template <class T>
__global__ void finish_lu(LuArgs a) {
  const std::int64_t k = a.rows < a.columns ? a.rows : a.columns;
  each_index(a.batch, [&](std::int64_t matrix) {
    const T* const lu = static_cast<const T*>(a.lu.data) + matrix * a.rows * a.columns;
    const std::int64_t* const pivots = a.pivots + matrix * k;
    std::int64_t* const order = a.order + matrix * a.rows;
    for (std::int64_t i = 0; i < a.rows; ++i) order[i] = i;
    T parity = 1;
    std::int64_t info = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t p = pivots[i], row = order[i];
      order[i] = order[p];
      order[p] = row;
      if (p != i) parity = -parity;
      if (info == 0 && lu[i * a.columns + i] == T(0)) info = i + 1;
    }
    static_cast<T*>(a.parity.data)[matrix] = parity;
    a.info[matrix] = info;
  });
}

/// to (columns, rows) = from (rows, columns) transposed, of one matrix.
template <class T>
__global__ void transpose_matrix(const T* from, T* to, std::int64_t rows, std::int64_t columns) {
  each_index(rows * columns, [&](std::int64_t i) { to[i] = from[i % rows * columns + i / rows]; });
}

/// Turns the library's row numbers, from 1, into those of LuArgs.
__global__ void store_pivots(std::int64_t* pivots, std::int64_t k, std::int64_t rows) {
  each_index(k, [&](std::int64_t i) {
    const std::int64_t p = pivots[i] - 1;
    pivots[i] = p < i || p >= rows ? i : p;  // with a NaN, the library may store any number
  });
}

/// The library may stop at a singular matrix or at one with a NaN; Binade's kernel factors such matrices again.
template <class T>
void lu_by_library(const LuArgs& a) {
  const std::int64_t k = std::min(a.rows, a.columns), size = a.rows * a.columns;
  const Buffer<int> info(a.batch);
  const Buffer<T> columns(size);
  check(cudaMemsetAsync(info.data(), 0, static_cast<std::size_t>(a.batch) * sizeof(int), context().stream), "info");
  for (std::int64_t i = 0; i < a.batch; ++i) {
    T* const to = static_cast<T*>(a.lu.data) + i * size;
    launch(transpose_matrix<T>, element_grid(size), kLinalgThreads, 0, static_cast<const T*>(a.a.data) + i * size,
           columns.data(), a.rows, a.columns);
    library_lu(std::is_same_v<T, double>, a.rows, a.columns, columns.data(), a.pivots + i * k, info.data() + i);
    launch(transpose_matrix<T>, element_grid(size), kLinalgThreads, 0, static_cast<const T*>(columns.data()), to,
           a.columns, a.rows);
    launch(store_pivots, element_grid(k), kLinalgThreads, 0, a.pivots + i * k, k, a.rows);
  }
  launch(factor_lu<T>, grid_for(a.batch), kLinalgThreads, 0, a, static_cast<const int*>(info.data()));
}

template <class T>
void lu(const LuArgs& a) {
  if (!fits_block(a.rows, a.columns) && library_decomposes())
    lu_by_library<T>(a);
  else
    launch(factor_lu<T>, grid_for(a.batch), kLinalgThreads, 0, a, static_cast<const int*>(nullptr));
  launch(finish_lu<T>, grid_for(ceil_div(a.batch, kWarp)), kWarp, 0, a);
}

}  // namespace

void run_cholesky(const CholeskyArgs& a) {
  if (a.batch == 0) return;
  a.a.dtype == DType::f64 ? cholesky<double>(a) : cholesky<float>(a);
}

void run_lu(const LuArgs& a) {
  if (a.batch == 0) return;
  a.a.dtype == DType::f64 ? lu<double>(a) : lu<float>(a);
}

}  // namespace binade::cuda
