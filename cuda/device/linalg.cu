#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/linalg.cuh"

/// Copies of matrices to a workspace in double.
namespace binade::cuda {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 14;  // a block searches this many elements for the largest magnitude

struct LargerBits {
  __device__ static unsigned long long combine(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
};

__global__ void __launch_bounds__(kLinalgThreads) find_largest(MatrixReading r) {
  const std::int64_t size = r.rows * r.columns, chunks = (size + kChunk - 1) / kChunk;
  for (std::int64_t at = blockIdx.x; at < r.count * chunks; at += gridDim.x) {
    const std::int64_t matrix = at / chunks, begin = at % chunks * kChunk;
    unsigned long long largest = 0;
    each_of_block(begin, begin + kChunk < size ? begin + kChunk : size, [&](std::int64_t i) {
      if (r.lower && i % r.columns > i / r.columns) return;
      const double x = load_at<double>(r.a, (r.first + matrix) * size + i);
      largest = LargerBits::combine(largest, std::bit_cast<unsigned long long>(std::fabs(x)));
    });
    largest = fold_block<LargerBits, kLinalgThreads>(largest);
    if (threadIdx.x == 0) atomicMax(r.largest + matrix, largest);
  }
}

__global__ void copy_scaled(MatrixReading r) {
  const std::int64_t size = r.rows * r.columns;
  each_index(r.count * size, [&](std::int64_t to) {
    const std::int64_t matrix = to / size, place = to - matrix * size;
    std::int64_t from = place;  // the transposed matrix stored by columns is the matrix stored by rows
    if (!r.transposed) {
      const std::int64_t column = place / r.rows, row = place - column * r.rows;
      from = r.lower && column > row ? column * r.columns + row : row * r.columns + column;
    }
    const unsigned long long largest = r.largest[matrix];
    const double x = load_at<double>(r.a, (r.first + matrix) * size + from);
    r.to[to] = is_finite_matrix(largest) ? std::ldexp(x, -exponent_of(largest)) : 0.0;
  });
}

}  // namespace

void read_matrices(const MatrixReading& r) {
  const std::int64_t size = r.rows * r.columns;
  check(cudaMemsetAsync(r.largest, 0, static_cast<std::size_t>(r.count) * sizeof *r.largest, context().stream),
        "the largest elements");
  launch(find_largest, grid_for(r.count * ceil_div(size, kChunk)), kLinalgThreads, 0, r);
  launch(copy_scaled, element_grid(r.count * size), kLinalgThreads, 0, r);
}

}  // namespace binade::cuda
