#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "binade/core/kernels/tensor.h"

namespace binade {

/// Splits copies into chunks of at most `most` bytes, so that several threads (or CUDA thread blocks) share the copy of
/// a large tensor.
inline std::vector<MemoryCopy> in_chunks(std::span<const MemoryCopy> copies, std::size_t most) {
  std::vector<MemoryCopy> chunks;
  for (const MemoryCopy& c : copies)
    for (std::size_t at = 0; at < c.bytes; at += most)
      chunks.push_back(
          {static_cast<char*>(c.to) + at, static_cast<const char*>(c.from) + at, std::min(most, c.bytes - at)});
  return chunks;
}

}  // namespace binade
