#pragma once

#include <cstdint>

#include "binade/core/kernels/run.h"
#include "binade/core/random.h"

namespace binade::cpu {

/// One level's loops over single rows of `n` elements.
struct RowKernels {
  void (*softmax)(In x, Out y, std::int64_t n, bool log);
  void (*softmax_backward)(In y, In gy, Out gx, std::int64_t n, bool log);
  /// y = x * scale where word (first + i) >> 8 of the stream is >= drop, else 0. REQUIRES first % 4 == 0.
  void (*dropout)(In x, Out y, std::int64_t n, const RandomStream& stream, std::int64_t first, std::uint32_t drop,
                  double scale);
};

}  // namespace binade::cpu
