#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "binade/core/dtype.h"
#include "binade/core/host_device.h"
#include "binade/core/kernels/cumulate.h"
#include "binade/core/one_rounding.h"

/// The arithmetic of cumulative ops, for CPU and GPU.
namespace binade {

template <Cumulation how, class S>
BINADE_HD S cumulation_start() {
  if constexpr (how == Cumulation::kSum) return S(0);
  if constexpr (how == Cumulation::kProduct) return S(1);
  if constexpr (how == Cumulation::kLogSumExp) return -std::numeric_limits<S>::infinity();
}

/// Returns a + b, a b or log(exp a + exp b).
template <Cumulation how, class S>
BINADE_HD S cumulated(S a, S b) {
  if constexpr (how == Cumulation::kLogSumExp) {
    const S high = a > b ? a : b, low = a > b ? b : a;
    if (a != a || b != b) return a + b;
    if (low < -std::numeric_limits<S>::max() || high > std::numeric_limits<S>::max()) return high;
    return high + std::log1p(std::exp(low - high));
  } else if constexpr (std::is_integral_v<S>) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    return static_cast<S>(how == Cumulation::kSum ? x + y : x * y);
  } else {
    return how == Cumulation::kSum ? a + b : a * b;
  }
}

/// Converts a stored value to the type of the total.
template <class S, class T>
BINADE_HD S term_of(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<S>(x);
  else
    return static_cast<S>(load(x));
}

/// Rounds a total to the stored type, once.
template <class T, class S>
BINADE_HD T rounded_from(S total) {
  if constexpr (std::is_integral_v<T>)
    return total;
  else
    return store_once<T>(static_cast<double>(total));
}

/// True if `next` replaces `best`, an earlier element, as the largest (otherwise smallest) element so far.
template <class T>
BINADE_HD bool replaces(bool largest, T best, T next) {
  if (next != next) return true;
  return best == best && (largest ? next >= best : next <= best);
}

/// The gradient of one line, whose element j is at start + j * step. With
///   product:       S_j = gy_j + x_(j+1) S_(j+1),                    gx_j = y_(j-1) S_j
///   log-sum-exp:   S_j = gy_j + exp(y_j - y_(j+1)) S_(j+1),         gx_j = exp(x_j - y_j) S_j
/// Computed in double. The formulas do not divide, so factors of 0 need no special case.
template <class T>
BINADE_HD void cumulate_gradient_line(Cumulation how, const T* x, const T* y, const T* gy, T* gx, std::int64_t start,
                                      std::int64_t count, std::int64_t step) {
  double sum = 0;
  for (std::int64_t j = count; j-- > 0;) {
    const std::int64_t at = start + j * step;
    const auto value = [&](const T* values, std::int64_t i) { return static_cast<double>(load(values[i])); };
    double slope = 1, factor = 0;
    if (how == Cumulation::kProduct) {
      if (j + 1 < count) factor = value(x, at + step);
      if (j > 0) slope = value(y, at - step);
    } else {
      const double here = value(y, at), after = j + 1 < count ? value(y, at + step) : 0;
      if (j + 1 < count) factor = here == after ? 1 : std::exp(here - after);
      slope = value(x, at) == here ? 1 : std::exp(value(x, at) - here);
      if (here < -std::numeric_limits<double>::max()) slope = 0;
    }
    sum = value(gy, at) + (j + 1 < count ? factor * sum : 0);
    gx[at] = rounded_from<T>(slope * sum);
  }
}

}  // namespace binade
