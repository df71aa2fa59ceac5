#pragma once

#include <cstdint>
#include <string_view>

/// Rules about products that the library and the module share.
namespace binade::cuda {

/// Returns true if a product with a GELU, or with its derivative, should be one call of cuBLASLt. cuBLASLt fuses them
/// on Hopper and data-center Blackwell; on other cards it runs a second kernel, which is slower than ours (llm.c's pull
/// requests 338 and 653, SGLang's 34350). `capability`: 10 major + minor.
constexpr bool gelu_is_fused(int capability) { return capability >= 90 && capability < 120; }

/// Returns why the products of an fp8 layer of these sizes read bf16 instead of 8-bit codes; empty if they read codes.
/// A layer has three products (forward and two gradients). Each size is the summed dimension k of one of them and the
/// length of contiguous rows in another, so each must be a multiple of 16. `capability`: compute capability, 10 major +
/// minor.
constexpr std::string_view why_no_fp8_codes(int capability, std::int64_t rows, std::int64_t inputs,
                                            std::int64_t outputs) {
  constexpr std::int64_t kMultiple = 16;  // required by cuBLASLt for 8-bit products
  if (capability < 89) return "the device has no 8-bit products (compute capability 8.9 or newer has)";
  if (rows <= 0 || rows % kMultiple != 0) return "its rows are no multiple of 16";
  if (inputs <= 0 || outputs <= 0 || inputs % kMultiple != 0 || outputs % kMultiple != 0)
    return "its inputs and outputs are no multiples of 16";
  return {};
}

/// Returns true if the offsets of `batch` products are evenly spaced (null: all are 0), and sets `stride` to their
/// distance.
inline bool evenly_spaced(const std::int64_t* offsets, std::int64_t batch, std::int64_t& stride) {
  stride = offsets != nullptr && batch > 1 ? offsets[1] - offsets[0] : 0;
  for (std::int64_t i = 0; offsets != nullptr && i < batch; ++i)
    if (offsets[i] != i * stride) return false;
  return true;
}

}  // namespace binade::cuda
