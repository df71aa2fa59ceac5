#pragma once

#include <bit>
#include <cstdint>

#include "binade/core/float16.h"
#include "binade/core/host_device.h"

namespace binade {

/// Stochastic rounding (Croci et al., "Stochastic rounding: implementation, error analysis and applications", 2022,
/// mode SR-nearness). Rounds x to one of the two nearest representable numbers, with a probability proportional to the
/// distance from the other, so that the mean over a uniform random 32-bit `word` is x. Representable values and NaN are
/// unchanged; a magnitude above the largest finite number may become infinite.
BINADE_HD bfloat16 round_stochastic_bf16(float x, std::uint32_t word) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7f800000u) == 0x7f800000u) return bfloat16::from_float(x);
  return {static_cast<std::uint16_t>((u + (word >> 16)) >> 16)};
}

BINADE_HD float16 round_stochastic_f16(float x, std::uint32_t word) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t a = u & 0x7fffffffu;
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  if (a >= 0x7f800000u) return float16::from_float(x);
  if (a < 0x38800000u) {  // subnormal f16 values are 2^-24 apart
    const float scaled = std::bit_cast<float>(a) * 0x1p24f;
    const auto below = static_cast<std::uint32_t>(scaled);
    const float rest = scaled - static_cast<float>(below);
    const bool up = static_cast<float>(word >> 8) * 0x1p-24f < rest;
    return {static_cast<std::uint16_t>(sign | (below + (up ? 1u : 0u)))};
  }
  const std::uint32_t rounded = (a - 0x38000000u + (word >> 19)) >> 13;
  return {static_cast<std::uint16_t>(sign | (rounded < 0x7c00u ? rounded : 0x7c00u))};
}

}  // namespace binade
