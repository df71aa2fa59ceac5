#pragma once

#include "binade/core/random.h"
#include "binade/cuda/calls/elementwise.h"

namespace binade::cuda {

/// SoftmaxKernels (core/ops/softmax.h). Backward: x is y, and gx goes to y.
struct SoftmaxCall {
  bool log = false, backward = false;
  std::int64_t rows = 0, cols = 0, pitch = 0;  ///< of x; the others are contiguous
  Source x{}, gy{};
  Target y{};
};

/// Dropout::Kernels (core/ops/dropout.h), all contiguous.
struct DropoutCall {
  Source x;
  Target y;
  std::int64_t count = 0;
  RandomStream stream;
  std::uint32_t drop = 0;
  double scale = 1;
};

}  // namespace binade::cuda
