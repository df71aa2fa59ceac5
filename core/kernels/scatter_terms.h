#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "binade/core/host_device.h"
#include "binade/core/kernels/index.h"

/// How contributions of a scatter are combined, for CPU and GPU.
namespace binade {

/// Return a + b and a b. Integers wrap. For bools, the sum is a || b and the product a && b.
template <class T>
BINADE_HD T wrapping_sum(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}
template <class T>
BINADE_HD T wrapping_product(T a, T b) {
  if constexpr (std::is_same_v<T, bool>)
    return a && b;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  else
    return a * b;
}

/// Returns the value that contributions are combined with if the value of the target does not count.
template <class T>
BINADE_HD T scatter_start(Scattering how) {
  constexpr bool kFloating = std::is_floating_point_v<T>;
  switch (how) {
    case Scattering::kProduct: return T(1);
    case Scattering::kLargest:
      return kFloating ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    case Scattering::kSmallest: return kFloating ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    default: return T(0);
  }
}

template <class T>
BINADE_HD T scatter_combined(Scattering how, T a, T b) {
  switch (how) {
    case Scattering::kAssign: return b;
    case Scattering::kProduct: return wrapping_product(a, b);
    case Scattering::kLargest: return a != a ? a : (b <= a ? a : b);
    case Scattering::kSmallest: return a != a ? a : (b >= a ? a : b);
    default: return wrapping_sum(a, b);
  }
}

/// Returns sum / count, rounded down for integers.
template <class T>
BINADE_HD T scatter_mean(T sum, std::int64_t count) {
  if constexpr (std::is_same_v<T, bool>) {
    return sum;
  } else if constexpr (std::is_integral_v<T>) {
    const auto wide = static_cast<std::int64_t>(sum);
    const std::int64_t quotient = wide / count;
    return static_cast<T>(wide % count < 0 ? quotient - 1 : quotient);
  } else {
    return sum / static_cast<T>(count);
  }
}

/// True if a equals b, NaN being equal to NaN.
template <class T>
BINADE_HD bool same_value(T a, T b) {
  return a == b || (a != a && b != b);
}

/// Totals over all contributions to one target, from which the gradient of each contribution is computed.
template <class T>
struct ScatterTotals {
  std::int64_t count = 0;  ///< contributions; for largest and smallest values, those that equal the result
  std::int64_t zeros = 0;  ///< factors that are 0
  T product = T(1);        ///< of the other factors

  BINADE_HD void add(Scattering how, T value, T result) {
    if (how == Scattering::kLargest || how == Scattering::kSmallest) {
      count += same_value(value, result) ? 1 : 0;
      return;
    }
    ++count;
    if (how != Scattering::kProduct) return;
    if (value == T(0))
      ++zeros;
    else
      product *= value;
  }
  /// Returns the gradient of the contribution `value`.
  BINADE_HD T gradient(Scattering how, T value, T result, T gy) const {
    switch (how) {
      case Scattering::kMean: return gy / static_cast<T>(count);
      case Scattering::kLargest:
      case Scattering::kSmallest: return same_value(value, result) ? gy / static_cast<T>(count) : T(0);
      case Scattering::kProduct:
        if (value == T(0)) return zeros == 1 ? gy * product : T(0);
        return zeros == 0 ? gy * (product / value) : T(0);
      default: return gy;
    }
  }
};

}  // namespace binade
