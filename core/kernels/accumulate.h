#pragma once

#include <cstdint>

#include "binade/core/dtype.h"

namespace binade::cpu {

/// to[i] = to[i] + from[i] over n values of f32, f16 or bf16, added in float and rounded once, on the calling thread.
struct AccumulateKernels {
  void (*run)(DType from_dtype, const void* from, DType to_dtype, void* to, std::int64_t n);
};

}  // namespace binade::cpu
