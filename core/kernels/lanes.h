#pragma once

#include "core/kernels/seen.h"
#include "core/kernels/simd.h"

/// Loops over a row in vectors, the last of which may be partial. Only for sources in `kernel_sources`.
namespace binade::cpu::BINADE_ISA {

struct Full {};
struct Part {
  int count;  ///< lanes that are there, 1 … kLanes - 1
};

/// A register of the type that T computes in.
template <class T>
using Wide = Vector<Compute<T>>;
template <class T>
inline constexpr int kWideLanes = kLanes<Compute<T>>;

template <class T>
inline Wide<T> get(const T* from, Full) {
  if constexpr (std::is_same_v<T, double>)
    return load_vector<double>(from);
  else
    return load_as_float(from);
}
template <class T>
inline Wide<T> get(const T* from, Part part) {
  if constexpr (std::is_same_v<T, double>) {
    Vector<double> v{};
    std::memcpy(&v, from, static_cast<std::size_t>(part.count) * sizeof(double));
    return v;
  } else {
    return load_part_as_float(from, part.count);
  }
}
template <class T>
inline void put(T* to, const Wide<T>& v, Full) {
  if constexpr (std::is_same_v<T, double>)
    store_vector<double>(to, v);
  else
    store_from_float(to, v);
}
template <class T>
inline void put(T* to, const Wide<T>& v, Part part) {
  if constexpr (std::is_same_v<T, double>)
    std::memcpy(to, &v, static_cast<std::size_t>(part.count) * sizeof(double));
  else
    store_part_from_float(to, v, part.count);
}

/// Lanes that are not there become 0.
template <class V>
inline V keep(const V& v, Full) {
  return v;
}
template <class V>
inline V keep(V v, Part part) {
  constexpr int lanes = static_cast<int>(sizeof(V) / sizeof(v[0]));
  for (int i = 0; i < lanes; ++i) v[i] = i < part.count ? v[i] : 0;
  return v;
}

/// put(), observed: for what a task leaves behind as a result.
template <class T, class P>
inline void put(T* to, const Wide<T>& v, P part, Seen& seen) {
  seen.add(keep(v, part));
  put(to, v, part);
}

/// The lanes added up, always as ((0 + n/2) + …) halves: one order for one instruction-set level.
template <class V>
inline auto sum_lanes(const V& v) {
  constexpr int lanes = static_cast<int>(sizeof(V) / sizeof(v[0]));
  std::remove_cvref_t<decltype(v[0])> a[lanes];
  std::memcpy(a, &v, sizeof(v));
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a[i] += a[i + half];
  return a[0];
}

/// f(column, Full{} or Part{n}) over [0, cols), one register of T's computing type at a time.
template <class T, class F>
inline void each_group(std::int64_t cols, F&& f) {
  constexpr int lanes = kWideLanes<T>;
  std::int64_t c = 0;
  for (; c + lanes <= cols; c += lanes) f(c, Full{});
  if (c < cols) f(c, Part{static_cast<int>(cols - c)});
}

}  // namespace binade::cpu::BINADE_ISA
