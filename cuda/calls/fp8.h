#pragma once

#include <cstdint>

#include "core/ops/fp8.h"

namespace binade::cuda {

/// Fp8Kernels (core/ops/fp8.h) as calls; a rounding's is ops::Fp8Rounding itself.
struct Fp8BeginStepCall {
  float* amaxes = nullptr;
  std::int64_t rows = 0;
};

}  // namespace binade::cuda
