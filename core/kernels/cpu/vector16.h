#pragma once

#include <cstdint>
#include <cstring>

/// Vectors of 16 bytes, which every 64-bit processor has, for kernels that are compiled once.
namespace binade::cpu {

template <class T>
struct Vector16Of {
  typedef T type __attribute__((vector_size(16), may_alias));
};
/// A register of T; arithmetic and comparisons work lane by lane.
template <class T>
using Vector16 = typename Vector16Of<T>::type;

/// Number of values of T in a register.
template <class T>
inline constexpr std::int64_t kLanes16 = 16 / static_cast<std::int64_t>(sizeof(T));

/// Load and store at any address.
template <class T>
inline Vector16<T> load16(const void* from) {
  Vector16<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V>
inline void store16(void* to, const V& v) {
  static_assert(sizeof v == 16);
  std::memcpy(to, &v, sizeof v);
}

/// Returns true if a bit of v is set.
template <class V>
inline bool any_bit(const V& v) {
  std::uint64_t words[2];
  static_assert(sizeof v == sizeof words);
  std::memcpy(words, &v, sizeof words);
  return (words[0] | words[1]) != 0;
}

}  // namespace binade::cpu
