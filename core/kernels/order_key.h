#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "binade/core/dtype.h"
#include "binade/core/host_device.h"

/// Sort keys: unsigned integers in the order of the elements, for CPU and GPU.
namespace binade {

/// The key type of elements of type T.
template <class T>
using OrderKey = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Returns the key of x. NaN has the largest key, and -0 that of 0.
template <class T>
BINADE_HD OrderKey<T> order_key(T x) {
  using K = OrderKey<T>;
  if constexpr (std::is_floating_point_v<T>) {
    constexpr K kSign = K{1} << (sizeof(K) * 8 - 1);
    if (x != x) return ~K{0};
    const K bits = x == T(0) ? K{0} : std::bit_cast<K>(x);
    return (bits & kSign) != 0 ? static_cast<K>(~bits) : (bits | kSign);
  } else if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::int32_t>) {
    return static_cast<K>(x) ^ (K{1} << (sizeof(K) * 8 - 1));
  } else {
    return static_cast<K>(x);
  }
}

/// Returns the number of elements of a sorted row, whose NaN come last, that are < value, or <= value if `right`; n for
/// a NaN value.
template <class T>
BINADE_HD std::int64_t count_before(const T* row, std::int64_t n, T value, bool right) {
  if (value != value) return n;
  std::int64_t low = 0, high = n;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const T element = row[middle];
    const bool reached = element != element || (right ? element > value : element >= value);
    if (reached)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// Returns the number of the bin that contains x, of `bins` equal parts of [low, high]; `bins` if x is outside or NaN.
BINADE_HD std::int64_t bin_of(double x, double low, double high, std::int64_t bins) {
  if (!(x >= low && x <= high)) return bins;
  const double bin = (x - low) / (high - low) * static_cast<double>(bins);
  return bin < static_cast<double>(bins) ? static_cast<std::int64_t>(bin) : bins - 1;
}

/// Calls f(T{}) with the C++ type of an element that sorting and searching accept. Returns false for other dtypes.
template <class F>
bool with_ordered(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{}), true;
    case DType::f64: return f(double{}), true;
    case DType::i64: return f(std::int64_t{}), true;
    case DType::i32: return f(std::int32_t{}), true;
    case DType::u8: return f(std::uint8_t{}), true;
    case DType::boolean: return f(bool{}), true;
    default: return false;
  }
}

}  // namespace binade
