#pragma once

#include <cstring>
#include <span>

#include "binade/core/kernels/optimizer.h"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/value.cuh"

/// Code that the passes over flat parameter storage share. Each FlatBlock is processed by one thread block, and a
/// thread processes 8 contiguous elements at a time.
namespace binade::cuda {

inline constexpr int kFlatThreads = 256;  ///< threads of a block

/// Returns a copy of `blocks` in device memory. The list is the same in every step, so the copy is cached.
const FlatBlock* flat_blocks(std::span<const FlatBlock> blocks);

/// Returns page-locked host memory of at least `bytes`, valid until the next call.
void* staging(std::size_t bytes);

/// Copies from device memory to `to` and waits for the copy.
template <class T>
void download(std::span<T> to, const T* from) {
  if (to.empty()) return;
  void* pinned = staging(to.size_bytes());
  check(cudaMemcpyAsync(pinned, from, to.size_bytes(), cudaMemcpyDeviceToHost, context().stream), "results");
  wait();
  std::memcpy(to.data(), pinned, to.size_bytes());
}

/// Computes the results of ScanArguments in device memory. If `words` (one word per slice, initially 0) is not null, it
/// receives the largest magnitude of each slice.
void scan(std::span<const FlatBlock> blocks, std::span<const float* const> values, BlockScan* results,
          std::uint32_t* words);

/// Returns true if elements i … i + n - 1 of f32, f16 or bf16 can be accessed as one pack: n is 8, and they begin at a
/// multiple of 16 bytes.
__device__ __forceinline__ bool are_one_pack(const void* data, DType dtype, std::int64_t i, int n) {
  const std::int64_t bytes = dtype == DType::f32 ? 4 : 2;
  return n == kPack && (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(i * bytes)) % 16 == 0;
}
/// Load and store elements i … i + n - 1 (n <= 8), as a pack if possible.
__device__ __forceinline__ void load_run(const void* data, DType dtype, std::int64_t i, int n, float (&x)[kPack]) {
  if (are_one_pack(data, dtype, i, n)) return load_pack(data, dtype, i, x);
#pragma unroll
  for (int k = 0; k < kPack; ++k) x[k] = k < n ? load_at<float>(data, dtype, i + k) : 0.0f;
}
__device__ __forceinline__ void store_run(void* data, DType dtype, std::int64_t i, int n, const float (&x)[kPack]) {
  if (are_one_pack(data, dtype, i, n)) return store_pack(data, dtype, i, x);
#pragma unroll
  for (int k = 0; k < kPack; ++k)
    if (k < n) store_at(data, dtype, i + k, x[k]);
}

/// Calls f(i, n) for this thread's elements i … i + n - 1 (n <= 8) out of `count`.
template <class F>
__device__ __forceinline__ void each_run(int count, F&& f) {
  for (int i = static_cast<int>(threadIdx.x) * kPack; i < count; i += kFlatThreads * kPack)
    f(i, count - i < kPack ? count - i : kPack);
}

}  // namespace binade::cuda
