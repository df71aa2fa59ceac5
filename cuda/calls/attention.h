#pragma once

#include "binade/core/kernels/attention.h"
#include "binade/core/tensor_kernels.h"

namespace binade::cuda {

/// AttentionKernels as calls are cpu::AttentionForward and cpu::AttentionBackward themselves; this is MaskKernels
/// (core/ops/attention.h).
struct AdditiveMaskCall {
  TensorRows mask, to;
  std::int64_t rows = 0, cols = 0;
};

}  // namespace binade::cuda
