#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "binade/core/dtype.h"
#include "binade/core/host_device.h"

namespace binade {

/// Rounds `x` to odd: truncates it towards 0 to a float, and sets the last bit if that is not exact. Rounding the
/// result to a format with a significand of at most 22 bits gives the same value as rounding `x` directly, because the
/// float step never creates a tie of the shorter format. Source: Boldo, Melquiond, "Emulation of FMA and correctly
/// rounded sums: proved algorithms using rounding to odd", 2008.
constexpr BINADE_HD float rounded_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const bool beyond = (x < 0 ? -x : x) < (nearest < 0 ? -static_cast<double>(nearest) : static_cast<double>(nearest));
  return std::bit_cast<float>((beyond ? bits - 1 : bits) | 1u);
}

/// Returns `x` converted to T (f32, f16, bf16, f64) with one rounding, to nearest even.
template <class T>
constexpr BINADE_HD T store_once(double x) {
  if constexpr (requires { T::from_float(0.0f); })
    return T::from_float(rounded_to_odd(x));
  else
    return static_cast<T>(x);
}

/// Returns `x` as the double that store_once() rounds. An integer that double cannot hold is rounded to odd, so that
/// rounding the result to f32 or 16 bits gives the same value as rounding the integer directly.
template <class C>
constexpr BINADE_HD double to_double(C x) {
  if constexpr (std::is_same_v<C, std::int64_t>) {
    constexpr int kCut = 11;  // low bits to drop, so that 53 of 64 bits remain
    constexpr std::int64_t kExact = std::int64_t{1} << 53, kTail = (std::int64_t{1} << kCut) - 1;
    if (x > kExact || x < -kExact)
      return static_cast<double>((x >> kCut) | ((x & kTail) != 0 ? 1 : 0)) * static_cast<double>(kTail + 1);
  }
  return static_cast<double>(x);
}

/// Converts a number to the integer type T. A floating number is truncated towards 0 and saturates at the limits of T;
/// NaN becomes 0. A wider integer keeps its lowest bits.
template <class T, class C>
constexpr BINADE_HD T to_integer(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    constexpr C kEnd = static_cast<C>(std::uint64_t{1} << (std::numeric_limits<T>::digits - 1)) * 2;
    constexpr T kLowest = std::numeric_limits<T>::min(), kLargest = std::numeric_limits<T>::max();
    if (x != x) return 0;
    if (x >= kEnd) return kLargest;
    return x <= static_cast<C>(kLowest) ? kLowest : static_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

}  // namespace binade
