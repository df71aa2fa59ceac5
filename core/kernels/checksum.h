#pragma once

#include <cstdint>

#include "binade/core/host_device.h"

/// Checksums of data in memory, which are equal on every device.
namespace binade {

/// *sum += the sum of checksum_term(word, i, salt) over the 32-bit words of `bytes` bytes, modulo 2^64. An incomplete
/// last word is filled up with zeros. A change of one word always changes the sum, and so does nearly every other
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

}  // namespace binade
