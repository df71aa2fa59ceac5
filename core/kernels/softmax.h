#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/random.h"

namespace binade {

/// Softmax or log-softmax of rows. Backward: x is the op's result, gy its gradient, and y receives the gradient of the
/// input.
struct SoftmaxArgs {
  bool log = false, backward = false;
  std::int64_t rows = 0, cols = 0, pitch = 0;  ///< pitch: elements between rows of x; the other tensors are contiguous
  In x{}, gy{};
  Out y{};
};

/// y = x * scale if word i of the stream, shifted right by 8, is >= drop; otherwise y = 0. x and y are contiguous.
struct DropoutArgs {
  In x{};
  Out y{};
  std::int64_t count = 0;
  RandomStream stream{};
  std::uint32_t drop = 0;  ///< the dropout probability times 2^24
  double scale = 1;
};

namespace cpu {

/// One level's loops over single rows of `n` elements.
struct RowKernels {
  void (*softmax)(In x, Out y, std::int64_t n, bool log);
  void (*softmax_backward)(In y, In gy, Out gx, std::int64_t n, bool log);
  /// Like DropoutArgs; element i uses word first + i. REQUIRES first % 4 == 0.
  void (*dropout)(In x, Out y, std::int64_t n, const RandomStream& stream, std::int64_t first, std::uint32_t drop,
                  double scale);
};

}  // namespace cpu
}  // namespace binade
