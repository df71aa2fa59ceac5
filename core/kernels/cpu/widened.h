#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/one_rounding.h"

/// Elements of any dtype as std::int64_t or double, for kernels that are compiled once.
namespace binade::cpu {

inline constexpr std::int64_t kWidened = 512;  ///< elements that are widened at once

/// to[i] = x[i * step] for i < n, converted to C. n <= kWidened. A bool is 0 or 1.
template <class C>
void widen_any(In x, std::int64_t step, C* to, std::int64_t n) {
  if (x.dtype == DType::boolean) x.dtype = DType::u8;
  dispatch_any(x.dtype, "kernel", [&]<class T>(TypeTag<T>) {
    const T* from = static_cast<const T*>(x.data);
    for (std::int64_t i = 0; i < n; ++i) {
      if constexpr (requires { from->to_float(); })
        to[i] = static_cast<C>(from[i * step].to_float());
      else
        to[i] = static_cast<C>(from[i * step]);
    }
  });
}

/// Stores n whole numbers, wrapped to y's dtype. If y is bool, 0 is false and every other number is true.
template <class C>
void store_whole(const C* from, Out y, std::int64_t n) {
  if (y.dtype == DType::boolean) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<std::uint8_t*>(y.data)[i] = from[i] != 0 ? 1 : 0;
    return;
  }
  const auto store = [&]<class T>(TypeTag<T>) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<T*>(y.data)[i] = static_cast<T>(to_integer<std::int64_t>(from[i]));
  };
  if (y.dtype == DType::i64) store(TypeTag<std::int64_t>{});
  if (y.dtype == DType::i32) store(TypeTag<std::int32_t>{});
  if (y.dtype == DType::u8) store(TypeTag<std::uint8_t>{});
}

}  // namespace binade::cpu
