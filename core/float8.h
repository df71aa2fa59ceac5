#pragma once

#include <bit>
#include <cstdint>

#include "binade/core/host_device.h"

namespace binade {

/// The 8-bit floating-point formats of the Open Compute Project. They are not dtypes of tensors; operands of linear
/// layers are rounded to them (core/ops/fp8.h).
///
///   format | exponent, mantissa bits | largest | smallest normal, subnormal | infinity
///   e4m3   | 4, 3                    | 448     | 2^-6, 2^-9                 | none
///   e5m2   | 5, 2                    | 57344   | 2^-14, 2^-16               | yes
enum class Float8 : std::uint8_t { e4m3, e5m2 };

namespace detail {

/// The constants by which a float is rounded to an 8-bit format.
struct Float8Layout {
  int mantissa{};  ///< number of mantissa bits
  /// Float bits of 2^(1 - bias) / 2, half the smallest normal value. Subtracting them from the float bits of a normal
  /// value gives the exponent bits of the format
  std::uint32_t one_less{};
  std::uint32_t largest{};     ///< float bits of the largest finite value
  std::uint32_t normal{};      ///< float bits of the smallest normal value
  float coarse{};              ///< power of two whose ulp as a float is the smallest subnormal value
  float step{};                ///< the smallest subnormal value
  std::uint8_t of_infinity{};  ///< code of infinity
  std::uint8_t of_nan{};       ///< code of NaN
};
constexpr BINADE_HD Float8Layout layout_of(Float8 format) {
  return format == Float8::e4m3 ? Float8Layout{3, 0x3c000000u, 0x43e00000u, 0x3c800000u, 0x1p14f, 0x1p-9f, 0x7f, 0x7f}
                                : Float8Layout{2, 0x38000000u, 0x47600000u, 0x38800000u, 0x1p7f, 0x1p-16f, 0x7c, 0x7e};
}

}  // namespace detail

/// Returns the largest finite value.
constexpr BINADE_HD float largest_of(Float8 format) { return format == Float8::e4m3 ? 448.0f : 57344.0f; }

/// Returns the number that an 8-bit code of `format` stands for.
constexpr BINADE_HD float from_float8(std::uint8_t code, Float8 format) {
  const detail::Float8Layout l = detail::layout_of(format);
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
  const std::uint32_t a = code & 0x7fu;
  if (a > l.of_infinity || a == l.of_nan) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (a == l.of_infinity) return std::bit_cast<float>(sign | 0x7f800000u);
  if (a >> l.mantissa == 0)
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(a) * l.step));
  return std::bit_cast<float>(sign | ((a << (23 - l.mantissa)) + l.one_less));
}

/// Returns the largest k with amax 2^k <= the format's largest value, bounded so that 2^k, 2^-k and every product of a
/// code with 2^-k are normal floats. Returns 0 if amax is 0. REQUIRES: amax is finite and >= 0.
constexpr BINADE_HD int scale_exponent(float amax, Float8 format) {
  constexpr std::uint32_t kMantissa = 0x7fffffu;
  const std::uint32_t a = std::bit_cast<std::uint32_t>(amax), l = detail::layout_of(format).largest;
  if (a == 0) return 0;
  const int exponent_difference = static_cast<int>(l >> 23) - static_cast<int>(a >> 23);
  const int k = (a & kMantissa) > (l & kMantissa) ? exponent_difference - 1 : exponent_difference;
  return k > 110 ? 110 : k < -126 ? -126 : k;
}

/// Returns 2^k. REQUIRES: -126 <= k <= 127.
constexpr BINADE_HD float power_of_two(int k) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23);
}

/// Returns the code nearest to x 2^k, ties to even, without branches. A finite x beyond the largest value becomes that
/// value, even if x 2^k is not finite. NaN stays NaN. Infinity stays infinity in e5m2 and becomes NaN in e4m3, which
/// has no infinity, so that errors stay visible.
constexpr BINADE_HD std::uint8_t to_float8(float x, int k, Float8 format) {
  const detail::Float8Layout l = detail::layout_of(format);
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t a = std::bit_cast<std::uint32_t>(x * power_of_two(k)) & 0x7fffffffu;
  const std::uint32_t bounded = a < l.largest ? a : l.largest;
  const int dropped = 23 - l.mantissa;
  const std::uint32_t odd = bounded >> dropped & 1u;
  const std::uint32_t normal = (bounded - l.one_less + (1u << (dropped - 1)) - 1u + odd) >> dropped;
  const float shifted = std::bit_cast<float>(bounded) + l.coarse;  // adding l.coarse rounds subnormal values
  const std::uint32_t small = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(l.coarse);
  const std::uint32_t not_finite = (u & 0x7fffffffu) > 0x7f800000u ? l.of_nan : l.of_infinity;
  const std::uint32_t magnitude = bounded < l.normal ? small : normal;
  return static_cast<std::uint8_t>((u >> 24 & 0x80u) | ((u & 0x7fffffffu) < 0x7f800000u ? magnitude : not_finite));
}
constexpr BINADE_HD std::uint8_t to_float8(float x, Float8 format) { return to_float8(x, 0, format); }

/// Returns x rounded to `format` at scale 2^k: from_float8(to_float8(x, k)) 2^-k, computed without the code and without
/// branches.
constexpr BINADE_HD float through_float8(float x, int k, Float8 format) {
  const detail::Float8Layout l = detail::layout_of(format);
  const std::uint32_t u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t a = std::bit_cast<std::uint32_t>(x * power_of_two(k)) & 0x7fffffffu;
  const std::uint32_t bounded = a < l.largest ? a : l.largest;
  const int dropped = 23 - l.mantissa;
  const std::uint32_t unit = 1u << dropped;
  const std::uint32_t normal = (bounded + unit / 2 - 1 + (bounded >> dropped & 1u)) & ~(unit - 1);
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bounded) + l.coarse - l.coarse);
  const std::uint32_t magnitude = bounded < l.normal ? small : normal;
  const std::uint32_t rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * power_of_two(-k)) |
                                (u & 0x80000000u);
  // e4m3 has no infinity: setting the quiet bit turns infinity into NaN.
  const std::uint32_t not_finite = format == Float8::e4m3 || (u & 0x7fffffffu) > 0x7f800000u ? u | 0x7fc00000u : u;
  return std::bit_cast<float>((u & 0x7fffffffu) < 0x7f800000u ? rounded : not_finite);
}

}  // namespace binade
