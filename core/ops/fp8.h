#pragma once

#include <cstdint>

#include "binade/core/kernels/fp8.h"
#include "binade/core/tensor.h"

namespace binade::ops {

/// What a layer rounds: its input and its weight to e4m3, the gradient of its output to e5m2.
enum class Fp8Operand : int { kX, kWeight, kGradient };

/// How the operands of one layer's products are rounded to 8 bits: scaled by the largest power of two that keeps the
/// largest magnitude of the last 16 steps within the format. What is larger than that saturates, and counts from the
/// next step on. Where there is nothing to look back at, a tensor's own largest magnitude serves. NaN and infinities
/// stay visible in what is rounded and do not count.
struct Fp8Scaling {
  /// (3, 1 + kFp8Window) f32, by Fp8Operand: the largest magnitude of this step so far, then those of the steps before,
  /// the newest first. Undefined: there is no history
  Tensor amaxes{};
  /// This step's are written, and do not decide. False (evaluation): nothing is written, and the latest decide.
  bool record = false;
};

/// `x` (..., n) of bf16 as an 8-bit product with 32-bit sums sees it: every value is a code of the operand's format
/// times a power of two, which bf16 holds exactly. Contiguous. Throws DTypeError for another dtype.
Tensor round_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling);

/// The same values as codes: rows (m, k) are those of `x` (..., k), columns (k, m) the same transposed. A value is its
/// code times `scale` () f32.
struct Fp8Codes {
  Tensor rows{}, columns{}, scale{};
};
/// Whether the three products of a layer, of `rows` rows, are products of codes on this device. Where they are not,
/// round_to_fp8 makes operands that have the same values.
bool multiplies_fp8_codes(Device device, std::int64_t rows, std::int64_t inputs, std::int64_t outputs);
/// REQUIRES a device that multiplies codes. What is not asked for stays undefined.
Fp8Codes encode_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling, bool rows, bool columns);
/// What values of an operand are codes of.
constexpr Float8 format_of(Fp8Operand operand) {
  return operand == Fp8Operand::kGradient ? Float8::e5m2 : Float8::e4m3;
}

/// The amaxes of a layer that nobody has used yet.
Tensor fp8_amaxes(Device device);
/// A step begins: what was this step's goes to the history, the oldest leaves it.
void begin_fp8_step(Tensor& amaxes);

}  // namespace binade::ops
