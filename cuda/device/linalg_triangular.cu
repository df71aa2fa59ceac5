#include <type_traits>

#include "binade/cuda/device/decompositions.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/linalg.cuh"

/// Triangular systems, solved in the dtype of the matrix.
namespace binade::cuda {
namespace {

constexpr std::int64_t kColumns = 16;  // most columns that a block solves for

/// Stores, for each matrix, 1 + the position of the first 0 on the diagonal. A warp examines a matrix.
template <class T>
__global__ void find_zero(TriangularSolveArgs a) {
  for (std::int64_t matrix = blockIdx.x; matrix < a.batch; matrix += gridDim.x) {
    const T* const triangle = static_cast<const T*>(a.a.data) + matrix * a.n * a.n;
    std::int64_t before = -a.n;  // minus the position
    for (std::int64_t i = threadIdx.x; i < a.n && before == -a.n && !a.unit; i += kWarp)
      if (triangle[i * (a.n + 1)] == T(0)) before = -i;
    before = fold_warp<LaterNumber>(before);
    if (threadIdx.x == 0) a.info[matrix] = before > -a.n ? 1 - before : 0;
  }
}

/// Replaces x, a copy of b, by the solution. A block solves for up to `width` columns of one matrix: once an element is
/// known, its multiples are subtracted from the rows that are left.
template <class T>
__global__ void __launch_bounds__(kLinalgThreads) substitute(TriangularSolveArgs a, int width) {
  const std::int64_t n = a.n, parts = (a.columns + width - 1) / width;
  const bool forward = a.upper == a.transpose;
  const std::int64_t group = threadIdx.x / width, groups = kLinalgThreads / width;
  for (std::int64_t at = blockIdx.x; at < a.batch * parts; at += gridDim.x) {
    const T* const triangle = static_cast<const T*>(a.a.data) + at / parts * n * n;
    T* const x = static_cast<T*>(a.x.data) + at / parts * n * a.columns;
    const std::int64_t column = at % parts * width + threadIdx.x % width;
    const bool is_mine = column < a.columns;
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t i = forward ? step : n - 1 - step;
      if (is_mine && group == 0 && !a.unit) x[i * a.columns + column] /= triangle[i * (n + 1)];
      __syncthreads();
      const T known = is_mine ? x[i * a.columns + column] : T(0);
      for (std::int64_t left = group + 1; is_mine && step + left < n; left += groups) {
        const std::int64_t r = forward ? i + left : i - left;
        x[r * a.columns + column] -= triangle[a.transpose ? i * n + r : r * n + i] * known;
      }
      __syncthreads();
    }
  }
}

template <class T>
void solve(const TriangularSolveArgs& a) {
  const std::int64_t size = a.n * a.columns;
  if (a.info != nullptr) launch(find_zero<T>, grid_for(a.batch), kWarp, 0, a);
  check(cudaMemcpyAsync(a.x.data, a.b.data, static_cast<std::size_t>(a.batch * size) * sizeof(T),
                        cudaMemcpyDeviceToDevice, context().stream),
        "the right-hand side");
  if (!fits_block(a.n, a.n) && library_decomposes()) {
    // Rows of a matrix are columns for the library: it gets the transposed system.
    for (std::int64_t i = 0; i < a.batch; ++i)
      library_triangular({.wide = std::is_same_v<T, double>,
                          .upper = !a.upper,
                          .transpose = a.transpose,
                          .unit = a.unit,
                          .n = a.n,
                          .columns = a.columns,
                          .a = static_cast<const T*>(a.a.data) + i * a.n * a.n,
                          .x = static_cast<T*>(a.x.data) + i * size});
    return;
  }
  const auto width = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::min(a.columns, kColumns))));
  launch(substitute<T>, grid_for(a.batch * ceil_div(a.columns, width)), kLinalgThreads, 0, a, width);
}

}  // namespace

void run_triangular_solve(const TriangularSolveArgs& a) {
  if (a.batch == 0 || a.columns == 0) return;
  a.a.dtype == DType::f64 ? solve<double>(a) : solve<float>(a);
}

}  // namespace binade::cuda
