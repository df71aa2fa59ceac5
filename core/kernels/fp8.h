#pragma once

#include <cstdint>

#include "binade/core/float16.h"
#include "binade/core/float8.h"

namespace binade::cpu {

/// What operands of 8-bit products are made with (core/ops/fp8.h), on the calling thread.
struct Fp8RowKernels {
  /// y[i] = through_float8(x[i], exponent, format) over n values; y may be x.
  void (*round)(Float8 format, int exponent, const bfloat16* x, bfloat16* y, std::int64_t n);
  /// The largest finite magnitude of n values; 0 of none.
  bfloat16 (*largest)(const bfloat16* x, std::int64_t n);
};

}  // namespace binade::cpu
