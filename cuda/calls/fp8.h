#pragma once

#include <cstdint>
#include <string_view>

#include "binade/core/ops/fp8.h"

namespace binade::cuda {

/// Fp8Kernels (core/ops/fp8.h) as calls; a rounding's is ops::Fp8Rounding itself, an encoding's ops::Fp8Encoding.
struct Fp8BeginStepCall {
  float* amaxes = nullptr;
  std::int64_t rows = 0;
};

/// Whether a layer's products are products of codes. Nothing is sent to the device.
struct Fp8ChoiceCall {
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  bool* codes = nullptr;  ///< the answer, on the host
};

/// Why products of these sizes on a device of compute capability `capability` (10 major + minor) read bf16 instead of
/// codes; empty: they read codes. Every size is the k of one of the three products, and lies side by side in one.
constexpr std::string_view why_no_fp8_codes(int capability, std::int64_t rows, std::int64_t inputs,
                                            std::int64_t outputs) {
  constexpr std::int64_t kMultiple = 16;  // what cuBLASLt asks of 8-bit products
  if (capability < 89) return "the device has no 8-bit products (compute capability 8.9 or newer has)";
  if (rows <= 0 || rows % kMultiple != 0) return "its rows are no multiple of 16";
  if (inputs <= 0 || outputs <= 0 || inputs % kMultiple != 0 || outputs % kMultiple != 0)
    return "its inputs and outputs are no multiples of 16";
  return {};
}

}  // namespace binade::cuda
