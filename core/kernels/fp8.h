#pragma once

#include <cstdint>

#include "binade/core/float16.h"
#include "binade/core/float8.h"

/// Conversion of the operands of 8-bit products (core/ops/fp8.h).
namespace binade {

/// Steps whose largest magnitudes decide a scale. A layer's history is rows of 1 + kFp8Window magnitudes: this step's,
/// then those of the steps before, the newest first.
inline constexpr int kFp8Window = 16;

struct Fp8Rounding {
  Float8 format = Float8::e4m3;
  std::int64_t rows = 0, cols = 0, pitch = 0;  ///< of x; y is contiguous
  const void* x = nullptr;
  void* y = nullptr;
  const float* history = nullptr;  ///< kFp8Window magnitudes; null: none
  float* record = nullptr;         ///< becomes the largest of itself and |x|; null: not kept
};
struct Fp8Encoding {
  Fp8Rounding rounding{};  ///< without y
  std::uint8_t* rows = nullptr;
  std::uint8_t* columns = nullptr;  ///< null: not wanted, either
  float* scale = nullptr;
};
/// Moves each row's magnitudes on by one step.
struct Fp8BeginStep {
  float* amaxes = nullptr;
  std::int64_t rows = 0;
};
/// Whether a layer's products are products of codes. Nothing is sent to the device.
struct Fp8Choice {
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  bool* codes = nullptr;  ///< the answer, on the host
};

namespace cpu {

/// One level's loops, on the calling thread.
struct Fp8RowKernels {
  /// y[i] = through_float8(x[i], exponent, format) over n values; y may be x.
  void (*round)(Float8 format, int exponent, const bfloat16* x, bfloat16* y, std::int64_t n);
  /// The largest finite magnitude of n values; 0 of none.
  bfloat16 (*largest)(const bfloat16* x, std::int64_t n);
};

}  // namespace cpu
}  // namespace binade
