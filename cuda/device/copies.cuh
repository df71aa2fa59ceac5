#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/core/copy_chunks.h"
#include "binade/cuda/device/value.cuh"

/// Copies of many tensors by one kernel, one block per chunk.
namespace binade::cuda {

constexpr std::size_t kBlockChunk = std::size_t{256} << 10;  ///< bytes of a chunk

/// Copies one chunk. All threads of the block must call it.
__device__ inline void copy_chunk(const MemoryCopy& c) {
  const auto* from = static_cast<const unsigned char*>(c.from);
  auto* to = static_cast<unsigned char*>(c.to);
  const bool aligned = (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % 16 == 0;
  const std::size_t packs = aligned ? c.bytes / 16 : 0;
  for (std::size_t i = threadIdx.x; i < packs; i += blockDim.x)
    reinterpret_cast<Bytes16*>(to)[i] = reinterpret_cast<const Bytes16*>(from)[i];
  for (std::size_t i = 16 * packs + threadIdx.x; i < c.bytes; i += blockDim.x) to[i] = from[i];
}

}  // namespace binade::cuda
