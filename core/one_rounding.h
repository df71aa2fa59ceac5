#pragma once

#include <bit>
#include <cstdint>

#include "binade/core/dtype.h"
#include "binade/core/host_device.h"

namespace binade {

/// The float next to `x` on the way to 0, its last bit set where that loses anything (rounding to odd). A format of at
/// most 22 digits that this is rounded to gets what `x` itself would round to: a tie of the shorter format is never hit
/// by rounding to float before. Source: Boldo, Melquiond, "Emulation of FMA and correctly rounded sums: proved
/// algorithms using rounding to odd", 2008.
constexpr BINADE_HD float rounded_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const bool beyond = (x < 0 ? -x : x) < (nearest < 0 ? -static_cast<double>(nearest) : static_cast<double>(nearest));
  return std::bit_cast<float>((beyond ? bits - 1 : bits) | 1u);
}

/// `x` as it is stored in T (f32, f16, bf16, f64): rounded once, to nearest even.
template <class T>
constexpr BINADE_HD T store_once(double x) {
  if constexpr (requires { T::from_float(0.0f); })
    return T::from_float(rounded_to_odd(x));
  else
    return static_cast<T>(x);
}

}  // namespace binade
