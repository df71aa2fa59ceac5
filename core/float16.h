#pragma once

#include <bit>
#include <cstdint>

#include "binade/core/host_device.h"

namespace binade {

/// IEEE binary16 as bits. It has no arithmetic operators, because kernels widen to float, compute, and round once.
struct float16 {
  std::uint16_t bits = 0;

  /// Rounds to nearest, ties to even. |x| >= 65520 becomes infinity; NaN stays NaN (quiet, with its sign and upper
  /// payload).
  static constexpr BINADE_HD float16 from_float(float x) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x3ffu))};
    if (a >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
    if (a < 0x38800000u) {  // the result is subnormal: adding 0.5f rounds to multiples of 2^-24
      const float shifted = std::bit_cast<float>(a) + 0.5f;
      return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
    }
    const std::uint32_t odd = (a >> 13) & 1u;
    return {static_cast<std::uint16_t>(sign | ((a - 0x38000000u + 0xfffu + odd) >> 13))};
  }

  constexpr BINADE_HD float to_float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t a = bits & 0x7fffu;
    if (a >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((a & 0x3ffu) << 13));
    if (a < 0x0400u) {
      const float magnitude = static_cast<float>(a) * 0x1p-24f;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
    }
    return std::bit_cast<float>(sign | ((a << 13) + 0x38000000u));
  }
};

/// bfloat16 (the upper half of a float) as bits. It has no arithmetic operators, like float16.
struct bfloat16 {
  std::uint16_t bits = 0;

  /// Rounds to nearest, ties to even; NaN stays NaN (quiet).
  static constexpr BINADE_HD bfloat16 from_float(float x) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
  }

  constexpr BINADE_HD float to_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);

}  // namespace binade
