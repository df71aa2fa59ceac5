#pragma once

#include <cstdint>

#include "binade/core/kernels/fp8.h"
#include "binade/core/tensor.h"

namespace binade::ops {

/// Operand of a layer's products: input and weight are rounded to e4m3, the gradient of the output to e5m2.
enum class Fp8Operand : int { kX, kWeight, kGradient };

/// Scaling of the operands of one layer's products. An operand is multiplied by the largest power of two that keeps the
/// largest magnitude of the last 16 steps in the range of the 8-bit format. A larger value of the current step
/// saturates and affects the scale from the next step on. Without a history, the operand's own largest magnitude is
/// used. NaN and infinities are kept in the rounded operand and do not affect the scale.
struct Fp8Scaling {
  /// History, (3, 1 + kFp8Window) f32. Row i belongs to operand i of Fp8Operand: the largest magnitude in this step so
  /// far, then those in earlier steps, newest first. Undefined if there is no history
  Tensor amaxes{};
  /// True (training): the magnitudes of this step are recorded and do not affect its scale. False (evaluation): nothing
  /// is recorded, and the most recently recorded magnitudes affect the scale too.
  bool record = false;
};

/// Returns `x` (..., n) rounded to the values that an 8-bit product with 32-bit sums would read. Each value is a number
/// of the operand's 8-bit format times a power of two; bf16 represents it exactly. The result is bf16 and contiguous.
/// Throws DTypeError unless x is bf16.
Tensor round_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling);

/// The values of round_to_fp8() as 8-bit codes: `rows` (m, k) are the m rows of x (..., k), `columns` (k, m) are their
/// transpose. A value is the number that its code stands for times `scale`, an f32 scalar.
struct Fp8Codes {
  Tensor rows{}, columns{}, scale{};
};
/// True if the device can multiply 8-bit codes in the three products (forward, gx, gw) of a layer with this number of
/// rows, inputs and outputs. Otherwise use round_to_fp8(), which gives operands with the same values.
bool multiplies_fp8_codes(Device device, std::int64_t rows, std::int64_t inputs, std::int64_t outputs);
/// Returns the codes of `x`, with the members `rows` and `columns` only as requested. REQUIRES: multiplies_fp8_codes().
Fp8Codes encode_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling, bool rows, bool columns);
/// Returns the format that values of an operand are rounded to.
constexpr Float8 format_of(Fp8Operand operand) {
  return operand == Fp8Operand::kGradient ? Float8::e5m2 : Float8::e4m3;
}

/// Returns a history for Fp8Scaling::amaxes without magnitudes (zeros).
Tensor fp8_amaxes(Device device);
/// Call it when a step begins: moves the magnitudes of the previous step into the history, and drops the oldest ones.
void begin_fp8_step(Tensor& amaxes);

}  // namespace binade::ops
