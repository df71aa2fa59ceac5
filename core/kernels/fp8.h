#pragma once

#include <bit>
#include <cstdint>

#include "binade/core/float16.h"
#include "binade/core/float8.h"
#include "binade/core/host_device.h"

/// Conversion of operands of 8-bit products (core/ops/fp8.h).
namespace binade {

/// Number of earlier steps whose largest magnitudes determine a scale. The history of a layer consists of rows of 1 +
/// kFp8Window magnitudes: the magnitude of the current step, then the magnitudes of earlier steps, newest first.
inline constexpr int kFp8Window = 16;

/// Returns the largest finite magnitude of a history; 0 if `history` is null. Skips infinities and NaNs, which a fault
/// may have stored.
BINADE_HD float largest_in(const float* history) {
  float largest = 0;
  for (int i = 0; history != nullptr && i < kFp8Window; ++i)
    if (history[i] > largest && std::bit_cast<std::uint32_t>(history[i]) < 0x7f800000u) largest = history[i];
  return largest;
}

/// Arguments for rounding x (bf16) through an 8-bit format. The scale follows from the largest magnitude of the history
/// or, if the history has none, of x.
struct Fp8Rounding {
  Float8 format = Float8::e4m3;
  std::int64_t rows = 0, cols = 0, pitch = 0;  ///< rows, columns and pitch of x; y is contiguous
  const void* x = nullptr;
  void* y = nullptr;
  const float* history = nullptr;  ///< kFp8Window magnitudes of earlier steps; null: none
  float* record = nullptr;         ///< raised to the largest |x|; null: not recorded
};
/// Arguments for converting x to 8-bit codes, stored by rows, by columns, or both.
struct Fp8Encoding {
  Fp8Rounding rounding{};  ///< the arguments of rounding; y is not used
  std::uint8_t* rows = nullptr;
  std::uint8_t* columns = nullptr;  ///< codes by columns; null: not wanted; `rows` may be null too
  float* scale = nullptr;           ///< receives the factor by which a code is multiplied to give its value
};
/// Shifts each row of magnitudes by one step: the current magnitude becomes the newest of the history, and starts at 0.
struct Fp8BeginStep {
  float* amaxes = nullptr;
  std::int64_t rows = 0;
};
/// Asks whether a layer of this size multiplies 8-bit codes on the device. Submits no work to the device.
struct Fp8Choice {
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  bool* codes = nullptr;  ///< the answer, in host memory
};

namespace cpu {

/// Loops of one kernel level, on the calling thread.
struct Fp8RowKernels {
  /// y[i] = through_float8(x[i], exponent, format) over n values; y may be x.
  void (*round)(Float8 format, int exponent, const bfloat16* x, bfloat16* y, std::int64_t n);
  /// Returns the largest finite magnitude of n values, 0 if there is none.
  bfloat16 (*largest)(const bfloat16* x, std::int64_t n);
};

}  // namespace cpu
}  // namespace binade
