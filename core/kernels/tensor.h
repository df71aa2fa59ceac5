#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "binade/core/dtype.h"
#include "binade/core/host_device.h"

/// Arguments of the kernels that Tensor itself uses.
namespace binade {

/// Rows of elements in memory: element (r, c) at r * pitch + c.
template <class Data>
struct RowsOf {
  Data* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t pitch = 0;
};
using InputRows = RowsOf<const void>;
using OutputRows = RowsOf<void>;

/// `to` = `from`, each element rounded once to the dtype of `to`.
struct ConvertArgs {
  OutputRows to;
  InputRows from;
  std::int64_t rows = 0, cols = 0;
};
/// Every element of `to` = value, rounded once.
struct FillArgs {
  OutputRows to;
  double value = 0;
  std::int64_t rows = 0, cols = 0;
};
/// `into` += `from`, in float (double for f64), one rounding to the dtype of `into`. Floating dtypes.
struct AccumulateArgs {
  OutputRows into;
  InputRows from;
  std::int64_t rows = 0, cols = 0;
};
/// Observes `count` values of f32, f16 or bf16 as if a kernel had stored them (core/observation.h).
struct ObserveArgs {
  const void* values = nullptr;
  DType dtype = DType::f32;
  std::int64_t count = 0;
};

/// *sum += the sum of checksum_term(word, i, salt) over the 32-bit words of `bytes` bytes, modulo 2^64. A last word of
/// fewer bytes is filled up with zeros. A change of one word always changes the sum, and so does nearly every other
/// change. `sum` is in the memory of the device.
struct ChecksumArgs {
  const void* data = nullptr;
  std::int64_t bytes = 0;
  std::uint64_t salt = 0;
  std::uint64_t* sum = nullptr;
};
/// Returns the term of word `i`, a one-to-one function of the word (the finalizer of Steele et al., "Fast splittable
/// pseudorandom number generators", OOPSLA 2014).
BINADE_HD std::uint64_t checksum_term(std::uint32_t word, std::int64_t i, std::uint64_t salt) {
  std::uint64_t x = (static_cast<std::uint64_t>(i) + (salt << 48)) * 0x9e3779b97f4a7c15u + word;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
/// Returns word `i` of the data. `data` may have any alignment.
BINADE_HD std::uint32_t checksum_word(const void* data, std::int64_t bytes, std::int64_t i) {
  const auto* const at = static_cast<const std::uint8_t*>(data) + 4 * i;
  if (reinterpret_cast<std::uintptr_t>(at) % 4 == 0 && 4 * i + 4 <= bytes)
    return *reinterpret_cast<const std::uint32_t*>(at);
  std::uint32_t word = 0;
  for (int k = 0; k < 4; ++k)
    if (4 * i + k < bytes) word |= static_cast<std::uint32_t>(at[k]) << 8 * k;
  return word;
}

/// A copy of bytes.
struct MemoryCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};
/// Does all copies at once. No source overlaps another copy's destination. The span is in host memory.
struct CopyAllArgs {
  std::span<const MemoryCopy> copies{};
};

/// Converts a mask to additive values `to`, (rows, cols), contiguous, f32 or f64: a floating mask's values, or 0 where
/// a bool mask is true and -inf where it is false. The values are not observed: -inf is legal in a mask, and a mask is
/// not a result.
struct AdditiveMaskArgs {
  InputRows mask;
  OutputRows to;
  std::int64_t rows = 0, cols = 0;
};

}  // namespace binade
