#pragma once

#include <array>
#include <cstdint>

#include "binade/core/host_device.h"

namespace binade {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): a bijection of a 128-bit
/// counter under a 64-bit key. Stateless: the same key and counter give the same four words on every device.
BINADE_HD std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// The purpose that a random number is drawn for. Different purposes have different streams.
enum class RngPurpose : std::uint32_t { kInit, kDropout, kAugment, kShuffle, kRounding, kSampling, kData, kTensor };

/// A stateless random sequence. Element i depends on (seed, purpose, step, micro_batch, index, i) alone, so that a
/// resumed, replayed or recomputed step draws the same numbers. `index` is the number of the call that draws
/// (OpNumbers::call_index), or a counter of the caller.
struct RandomStream {
  std::uint64_t seed = 0;
  RngPurpose purpose = RngPurpose::kInit;
  std::uint64_t step = 0;         ///< low 40 bits are used
  std::uint32_t micro_batch = 0;  ///< low 16 bits are used
  std::uint32_t index = 0;

  /// Returns the Philox counter of block number `block`, which has four words of the stream. Kernels that draw many
  /// words increment the first word of the counter themselves.
  BINADE_HD std::array<std::uint32_t, 4> counter(std::uint64_t block) const {
    return {static_cast<std::uint32_t>(block), index, static_cast<std::uint32_t>(step),
            (static_cast<std::uint32_t>(step >> 32) & 0xffu) | ((micro_batch & 0xffffu) << 8) |
                (static_cast<std::uint32_t>(purpose) << 24)};
  }
  BINADE_HD std::array<std::uint32_t, 2> key() const {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  }
  /// Returns words 4 block to 4 block + 3 of the stream. REQUIRES: block < 2^32.
  BINADE_HD std::array<std::uint32_t, 4> block(std::uint64_t block) const { return philox4x32(counter(block), key()); }
  /// Returns word i of the stream, a uniform 32-bit number.
  BINADE_HD std::uint32_t word(std::uint64_t i) const { return block(i / 4)[i % 4]; }
  /// Returns a uniform number in [0, 1), a multiple of 2^-24, from word i.
  BINADE_HD float uniform(std::uint64_t i) const { return static_cast<float>(word(i) >> 8) * 0x1p-24f; }
  /// Returns a standard normal number, by Box-Muller from the words 2i and 2i + 1. Computed in double on the host.
  double normal(std::uint64_t i) const;
  /// Returns a uniform integer in [0, n) with negligible modulo bias: (word * n) >> 32. REQUIRES: n < 2^32.
  std::uint64_t below(std::uint64_t i, std::uint64_t n) const;
};

}  // namespace binade
