#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// Blocks of kFoldColumns x kFoldRows threads that add up columns: neighbors of a warp take neighboring columns, and
/// the rows of a column are shared among threads.
namespace binade::cuda {

inline constexpr int kFoldColumns = 32, kFoldRows = 16;

/// The sum of what the threads of this column bring, in their order; every one of them gets it. All threads of the
/// block call it.
template <class C>
__device__ C fold(C mine) {
  __shared__ C brought[kFoldRows][kFoldColumns];
  __syncthreads();  // the readers of the last one are done
  brought[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  C sum{};
  for (int y = 0; y < kFoldRows; ++y) sum += brought[y][threadIdx.x];
  return sum;
}

/// Blocks that take all of `cols` columns.
inline unsigned fold_grid(std::int64_t cols) { return static_cast<unsigned>((cols + kFoldColumns - 1) / kFoldColumns); }

}  // namespace binade::cuda
