#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "binade/core/kernels/linalg.h"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/value.cuh"

/// Code that the kernels of linear algebra share. Matrices up to kBlockExtent are processed by one block each. Larger
/// ones are passed to a library, one after the other, so that no result depends on the batch (decision 0094). Without a
/// library, blocks process them too. QR, eigenvalues and singular values are computed in double and rounded once.
namespace binade::cuda {

inline constexpr int kLinalgThreads = 256;
inline constexpr std::int64_t kBlockExtent = 128;

/// Returns true if a matrix of this size is processed by one block even if there is a library.
inline bool fits_block(std::int64_t rows, std::int64_t columns) { return std::max(rows, columns) <= kBlockExtent; }

/// Returns how many matrices are processed at a time, if each needs a workspace of `size` doubles.
inline std::int64_t matrices_at_a_time(std::int64_t batch, std::int64_t size) {
  constexpr std::int64_t kWorkspace = std::int64_t{1} << 23;
  return std::clamp<std::int64_t>(kWorkspace / std::max<std::int64_t>(size, 1), 1, batch);
}

/// Returns a grid for a loop over `count` elements.
inline unsigned element_grid(std::int64_t count) { return grid_for(ceil_div(count, kLinalgThreads)); }

// ---- matrices in double, stored column by column

/// Matrices of a batch, from number `first` on, and how they are copied to a workspace in double.
struct MatrixReading {
  In a{};
  std::int64_t first = 0, count = 0, rows = 0, columns = 0;
  bool lower = false;       ///< the matrix is symmetric, and only its lower triangle is read
  bool transposed = false;  ///< the transposed matrix is stored
  /// For each matrix, the largest magnitude of an element, as bits: those of NaN are the largest.
  unsigned long long* largest = nullptr;
  double* to = nullptr;
};

/// Copies matrices. Each is divided by a power of two, so that no square of an element overflows or underflows. A
/// matrix with a NaN or an infinity becomes 0.
void read_matrices(const MatrixReading& r);

/// Returns true if no element of the matrix is NaN or infinite.
__device__ inline bool is_finite_matrix(unsigned long long largest) { return largest < 0x7ff0000000000000ull; }
/// Returns the exponent of the power of two by which the matrix was divided.
__device__ inline int exponent_of(unsigned long long largest) {
  int exponent = 0;
  if (largest != 0 && is_finite_matrix(largest)) std::frexp(std::bit_cast<double>(largest), &exponent);
  return exponent;
}

// ---- functions of a block

/// Calls f(i) for this thread's share of the indices in [begin, end).
template <class F>
__device__ __forceinline__ void each_of_block(std::int64_t begin, std::int64_t end, F&& f) {
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kLinalgThreads) f(i);
}

/// The reflection I - tau v v^T, where v_0 = 1, that turns a vector into (beta, 0, 0, …).
struct Reflection {
  double tau, beta;
};

/// Returns the reflection for the vector of `count` elements of x that are `stride` apart, and stores v, contiguous, in
/// other memory than x.
__device__ inline Reflection reflection_of(const double* x, std::int64_t stride, std::int64_t count, double* v) {
  double squares = 0;
  each_of_block(1, count, [&](std::int64_t i) { squares += x[i * stride] * x[i * stride]; });
  squares = fold_block<Adding, kLinalgThreads>(squares);
  const double first = x[0];
  Reflection h{0, first};
  double divisor = 1;
  if (squares != 0) {
    const double norm = std::sqrt(first * first + squares);
    h.beta = first > 0 ? -norm : norm;
    h.tau = (h.beta - first) / h.beta;
    divisor = first - h.beta;
  }
  each_of_block(0, count, [&](std::int64_t i) { v[i] = i == 0 ? 1.0 : x[i * stride] / divisor; });
  __syncthreads();
  return h;
}

/// c = (I - tau v v^T) c for `columns` columns of `count` elements, `pitch` apart. A warp computes a column.
__device__ inline void reflect(const double* v, double tau, std::int64_t count, double* c, std::int64_t columns,
                               std::int64_t pitch) {
  const std::int64_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (std::int64_t j = warp; j < columns; j += kLinalgThreads / kWarp) {
    double* const x = c + j * pitch;
    double dot = 0;
    for (std::int64_t i = lane; i < count; i += kWarp) dot += v[i] * x[i];
    dot = tau * fold_warp<Adding>(dot);
    for (std::int64_t i = lane; i < count; i += kWarp) x[i] -= dot * v[i];
  }
  __syncthreads();
}

/// Stores the first `columns` columns of the identity of extent `rows`.
__device__ inline void set_identity(double* q, std::int64_t rows, std::int64_t columns) {
  each_of_block(0, rows * columns, [&](std::int64_t i) { q[i] = i / rows == i % rows ? 1.0 : 0.0; });
  __syncthreads();
}

/// A rotation of columns a and b of a matrix: a becomes c a + s b, and b becomes c b - s a.
struct Rotation {
  double c, s;
  int a, b;
};

/// Returns the rotation that turns the pair (x, z) into (length, 0).
__device__ inline Rotation rotation_of(double x, double z, std::int64_t a, std::int64_t b, double* length) {
  const double r = std::hypot(x, z);
  *length = r;
  return {r == 0 ? 1.0 : x / r, r == 0 ? 0.0 : z / r, static_cast<int>(a), static_cast<int>(b)};
}

/// Rotates columns of m, of `rows` elements: a thread applies all rotations, in order, to a row.
__device__ inline void rotate(double* m, std::int64_t rows, const Rotation* rotations, std::int64_t count) {
  each_of_block(0, rows, [&](std::int64_t i) {
    for (std::int64_t k = 0; k < count; ++k) {
      const Rotation g = rotations[k];
      const double x = m[g.a * rows + i], y = m[g.b * rows + i];
      m[g.a * rows + i] = g.c * x + g.s * y;
      m[g.b * rows + i] = g.c * y - g.s * x;
    }
  });
}

/// Returns the shift of a QR step for the symmetric matrix (a b; b c): its eigenvalue that is nearest to c.
__device__ inline double wilkinson_shift(double a, double b, double c) {
  if (b == 0) return c;
  const double half = (a - c) / 2, root = std::hypot(half, b);
  return c - b * (b / (half < 0 ? half - root : half + root));
}

/// Returns true if `coupling`, an element next to the diagonal, counts as 0 compared with the two diagonal elements.
__device__ inline bool is_negligible(double coupling, double left, double right) {
  return std::fabs(coupling) <= 0x1p-53 * (std::fabs(left) + std::fabs(right)) || std::fabs(coupling) < 0x1p-960;
}

// ---- functions of a warp

struct LaterNumber {
  __device__ static std::int64_t combine(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
};

/// Returns -1 if the sign rule of EighArgs changes the sign of a vector, else 1. Its elements are `stride` apart.
__device__ inline double sign_of_vector(const double* v, std::int64_t stride, std::int64_t count) {
  const std::int64_t lane = threadIdx.x % kWarp;
  double largest = 0;
  for (std::int64_t i = lane; i < count; i += kWarp) largest = Largest::combine(largest, std::fabs(v[i * stride]));
  const double least = 0.99 * fold_warp<Largest>(largest);
  std::int64_t before = -count;  // minus the first position with at least this magnitude
  for (std::int64_t i = lane; i < count && before == -count; i += kWarp)
    if (std::fabs(v[i * stride]) >= least) before = -i;
  before = fold_warp<LaterNumber>(before);
  return before > -count && v[-before * stride] < 0 ? -1 : 1;
}

/// Returns the number of values for which precedes(value, position) is true. Each lane of the warp gets it.
template <class F>
__device__ std::int64_t rank_of(const double* values, std::int64_t count, F&& precedes) {
  std::int64_t rank = 0;
  for (std::int64_t i = threadIdx.x % kWarp; i < count; i += kWarp) rank += precedes(values[i], i) ? 1 : 0;
  return fold_warp<Adding>(rank);
}

}  // namespace binade::cuda
