#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// Blocks of kColumns x fold_rows<kColumns> threads that add up columns: neighbors of a warp take neighboring columns,
/// and the rows of a column are shared among threads. Columns are kept few, so that many blocks share the work: 8
/// floats are what memory hands out at least.
namespace binade::cuda {

inline constexpr int kFoldThreads = 512, kFoldColumns = 8, kFoldRows = kFoldThreads / kFoldColumns;

/// Every x[i] becomes the sum of what the threads of this column bring, in a tree of its own; every one of them gets
/// it. All threads of the block call it.
template <int kColumns = kFoldColumns, class C, int n>
__device__ void fold(C (&x)[n]) {
  constexpr int kWarps = kFoldThreads / 32;
  static_assert(32 % kColumns == 0);
  __shared__ C brought[n][kWarps][kColumns];
  const int warp = static_cast<int>(threadIdx.y) * kColumns / 32, column = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < n; ++i)
#pragma unroll
    for (int apart = 16; apart >= kColumns; apart /= 2) x[i] += __shfl_xor_sync(0xffffffffu, x[i], apart);
  __syncthreads();  // the readers of the last one are done
  if (static_cast<int>(threadIdx.y) % (32 / kColumns) == 0)
#pragma unroll
    for (int i = 0; i < n; ++i) brought[i][warp][column] = x[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < n; ++i) {
    x[i] = brought[i][0][column];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) x[i] += brought[i][w][column];
  }
}

inline dim3 fold_block(int columns = kFoldColumns) {
  return {static_cast<unsigned>(columns), static_cast<unsigned>(kFoldThreads / columns), 1};
}
/// Blocks that take all of `cols` columns.
inline unsigned fold_grid(std::int64_t cols, int columns = kFoldColumns) {
  return static_cast<unsigned>((cols + columns - 1) / columns);
}

}  // namespace binade::cuda
