#pragma once

#include <cstdint>

#include "binade/core/kernels/fp8.h"
#include "binade/core/tensor.h"

namespace binade::ops {

/// Operand of a layer's products: input and weight are rounded to e4m3, the gradient of the output to e5m2.
enum class Fp8Operand : int { kX, kWeight, kGradient };

/// Scaling of the operands of one layer's products. An operand is scaled by the largest power of two that keeps the
/// largest magnitude of the last 16 steps in the format's range. Larger values saturate and count from the next step
/// on. Without a history, the tensor's own largest magnitude is used. NaN and infinities are kept in the rounded
/// operand and do not count.
struct Fp8Scaling {
  /// (3, 1 + kFp8Window) f32 by Fp8Operand: the largest magnitude of this step so far, then those of earlier steps,
  /// newest first. Undefined: no history
  Tensor amaxes{};
  /// True: the magnitudes of this step are recorded and do not affect its scale. False (evaluation): nothing is
  /// recorded, and the newest magnitudes count too.
  bool record = false;
};

/// Returns `x` (..., n) in bf16 with the values that an 8-bit product with 32-bit sums reads: each is a code of the
/// operand's format times a power of two, which bf16 represents exactly. Contiguous. Throws DTypeError unless x is
/// bf16.
Tensor round_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling);

/// The same values as 8-bit codes: `rows` (m, k) are the rows of x (..., k), `columns` (k, m) their transpose. A value
/// is its code times `scale` () f32.
struct Fp8Codes {
  Tensor rows{}, columns{}, scale{};
};
/// True if the three products of a layer with this number of rows multiply codes on this device. Otherwise use
/// round_to_fp8(), which gives operands of the same values.
bool multiplies_fp8_codes(Device device, std::int64_t rows, std::int64_t inputs, std::int64_t outputs);
/// Computes the requested members. REQUIRES: multiplies_fp8_codes().
Fp8Codes encode_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling, bool rows, bool columns);
/// Returns the format that values of an operand are rounded to.
constexpr Float8 format_of(Fp8Operand operand) {
  return operand == Fp8Operand::kGradient ? Float8::e5m2 : Float8::e4m3;
}

/// Returns an empty history.
Tensor fp8_amaxes(Device device);
/// Moves the magnitudes of the last step to the history and drops the oldest ones.
void begin_fp8_step(Tensor& amaxes);

}  // namespace binade::ops
