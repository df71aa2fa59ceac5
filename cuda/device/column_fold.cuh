#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// Blocks of kColumns x kFoldThreads / kColumns threads that sum columns: neighboring threads of a warp take
/// neighboring columns, and several threads share the rows of a column. A block has 8 columns: 8 floats are the
/// smallest memory transaction, and with so few columns per block, as many blocks as possible share the work.
namespace binade::cuda {

/// Threads of a block, and the columns and rows that they form.
inline constexpr int kFoldThreads = 512, kFoldColumns = 8, kFoldRows = kFoldThreads / kFoldColumns;

/// Replaces each x[i] by its sum over the threads of this column, in a fixed tree; every thread of the column receives
/// the sum. All threads of the block must call it.
template <int kColumns = kFoldColumns, class C, int n>
__device__ void fold(C (&x)[n]) {
  constexpr int kWarps = kFoldThreads / 32;
  static_assert(32 % kColumns == 0);
  __shared__ C shared[n][kWarps][kColumns];
  const int warp = static_cast<int>(threadIdx.y) * kColumns / 32, column = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int distance = 16; distance >= kColumns; distance /= 2) x[i] += __shfl_xor_sync(0xffffffffu, x[i], distance);
  }
  __syncthreads();  // threads of the previous call have read `shared`
  if (static_cast<int>(threadIdx.y) % (32 / kColumns) == 0) {
#pragma unroll
    for (int i = 0; i < n; ++i) shared[i][warp][column] = x[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < n; ++i) {
    x[i] = shared[i][0][column];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) x[i] += shared[i][w][column];
  }
}

/// Returns the dimensions of a block.
inline dim3 fold_block(int columns = kFoldColumns) {
  return {static_cast<unsigned>(columns), static_cast<unsigned>(kFoldThreads / columns), 1};
}
/// Returns the number of blocks for `cols` columns.
inline unsigned fold_grid(std::int64_t cols, int columns = kFoldColumns) {
  return static_cast<unsigned>((cols + columns - 1) / columns);
}

}  // namespace binade::cuda
