#pragma once

#include <bit>
#include <cstdint>

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

}  // namespace binade
