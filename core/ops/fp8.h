#pragma once

#include <cstdint>

#include "core/float8.h"
#include "core/kernel_slot.h"
#include "core/tensor.h"

namespace binade::ops {

/// Steps whose largest magnitudes decide a scale.
inline constexpr int kFp8Window = 16;

/// What a layer rounds: its input and its weight to e4m3, the gradient of its output to e5m2.
enum class Fp8Operand : int { kX, kWeight, kGradient };

/// How the operands of one layer's products are rounded to 8 bits: scaled by the largest power of two that keeps the
/// largest magnitude of the last 16 steps within the format. What is larger than that saturates, and counts from the
/// next step on. Where there is nothing to look back at, a tensor's own largest magnitude serves. NaN and infinities
/// stay visible in what is rounded and do not count.
struct Fp8Scaling {
  /// (3, 1 + kFp8Window) f32, by Fp8Operand: the largest magnitude of this step so far, then those of the steps before,
  /// the newest first. Undefined: there is no history
  Tensor amaxes;
  /// This step's are written, and do not decide. False (evaluation): nothing is written, and the latest decide.
  bool record = false;
};

/// `x` (..., n) of bf16 as an 8-bit product with 32-bit sums sees it: every value is a code of the operand's format
/// times a power of two, which bf16 holds exactly. Contiguous. Throws DTypeError for another dtype.
Tensor round_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling);

/// The amaxes of a layer that nobody has used yet.
Tensor fp8_amaxes(Device device);
/// A step begins: what was this step's goes to the history, the oldest leaves it.
void begin_fp8_step(Tensor& amaxes);

/// What a device supplies.
struct Fp8Rounding {
  Float8 format = Float8::e4m3;
  std::int64_t rows = 0, cols = 0, pitch = 0;  ///< of x; y is contiguous
  const void* x = nullptr;
  void* y = nullptr;
  const float* history = nullptr;  ///< kFp8Window magnitudes; null: none
  float* record = nullptr;         ///< becomes the largest of itself and |x|; null: not kept
};
struct Fp8Kernels {
  void (*round)(const Fp8Rounding&);
  void (*begin_step)(float* amaxes, std::int64_t rows);
};
KernelSlot<Fp8Kernels>& fp8_slot();
void register_fp8_cpu();

}  // namespace binade::ops
