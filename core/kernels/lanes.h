#pragma once

#include <utility>

#include "binade/core/kernels/amax_observer.h"

/// Loops over a row in vectors. The last vector may be partial. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// Tags of loops over vectors: all lanes of a vector are valid, or only the first `count`.
struct Full {};
struct Part {
  int count;  ///< valid lanes, 1 … kLanes - 1
};

/// A register of the type that T computes in.
template <class T>
using Wide = Vector<Compute<T>>;
/// Number of values in a Wide<T>.
template <class T>
inline constexpr int kWideLanes = kLanes<Compute<T>>;

/// Load a register of T from memory, all lanes or the first `part.count`; the other lanes are 0.
template <class T>
[[gnu::always_inline]] inline Wide<T> get(const T* from, Full) {
  if constexpr (std::is_same_v<T, double>)
    return load_vector<double>(from);
  else
    return load_as_float(from);
}
template <class T>
[[gnu::always_inline]] inline Wide<T> get(const T* from, Part part) {
  if constexpr (std::is_same_v<T, double>) {
    Vector<double> v{};
    std::memcpy(&v, from, static_cast<std::size_t>(part.count) * sizeof(double));
    return v;
  } else {
    return load_part_as_float(from, part.count);
  }
}
/// Store a register as T, rounded once: all lanes, or the first `part.count`.
template <class T>
[[gnu::always_inline]] inline void put(T* to, const Wide<T>& v, Full) {
  if constexpr (std::is_same_v<T, double>)
    store_vector<double>(to, v);
  else
    store_from_float(to, v);
}
template <class T>
[[gnu::always_inline]] inline void put(T* to, const Wide<T>& v, Part part) {
  if constexpr (std::is_same_v<T, double>)
    std::memcpy(to, &v, static_cast<std::size_t>(part.count) * sizeof(double));
  else
    store_part_from_float(to, v, part.count);
}

/// Returns v with `rest` in the lanes that are not valid.
template <class V>
[[gnu::always_inline]] inline V keep(const V& v, Full, float = 0) {
  return v;
}
template <class V>
[[gnu::always_inline]] inline V keep(const V& v, Part part, float rest = 0) {
  using Lane = std::remove_cvref_t<decltype(v[0])>;
  using Count = std::conditional_t<sizeof(Lane) == 8, std::int64_t, std::int32_t>;
  Vector<Count> lane;
  for (int i = 0; i < kLanes<Count>; ++i) lane[i] = i;
  return lane < static_cast<Count>(part.count) ? v : splat(static_cast<Lane>(rest));
}

/// Stores v and observes the values.
template <class T, class P, class S>
[[gnu::always_inline]] inline void put(T* to, const Wide<T>& v, P part, S& amax) {
  amax.add(keep(v, part));
  put(to, v, part);
}

namespace lanes_detail {

/// Returns v rotated: lane i of the result is lane i + kBehind of v.
template <int kBehind, class V, std::size_t... kIndex>
[[gnu::always_inline]] inline V rotate_lanes(const V& v, std::index_sequence<kIndex...>) {
  return __builtin_shufflevector(v, v, ((static_cast<int>(kIndex) + kBehind) % static_cast<int>(sizeof...(kIndex)))...);
}

/// Interleaves the low (kHalf 0) or high (1) halves of a and b.
template <int kHalf, class V, std::size_t... kIndex>
[[gnu::always_inline]] inline V interleave(const V& a, const V& b, std::index_sequence<kIndex...>) {
  constexpr int kN = static_cast<int>(sizeof...(kIndex));
  return __builtin_shufflevector(
      a, b, (static_cast<int>(kIndex / 2) + kHalf * (kN / 2) + static_cast<int>(kIndex % 2) * kN)...);
}

}  // namespace lanes_detail

/// Joins all lanes of v into one value with `join`, a function of two vectors: the lower half of the lanes with the
/// upper half, then the halves of the result, and so on. The order is fixed per kernel level.
template <class V, class F>
[[gnu::always_inline]] inline auto fold_lanes(V v, F&& join) {
  constexpr int lanes = static_cast<int>(sizeof(V) / sizeof(v[0]));
  using Index = std::make_index_sequence<lanes>;
  if constexpr (lanes >= 16) v = join(v, lanes_detail::rotate_lanes<8>(v, Index{}));
  if constexpr (lanes >= 8) v = join(v, lanes_detail::rotate_lanes<4>(v, Index{}));
  if constexpr (lanes >= 4) v = join(v, lanes_detail::rotate_lanes<2>(v, Index{}));
  v = join(v, lanes_detail::rotate_lanes<1>(v, Index{}));
  return v[0];
}
/// Returns the sum of all lanes.
template <class V>
[[gnu::always_inline]] inline auto sum_lanes(const V& v) {
  return fold_lanes(
      v, [](const V& a, const V& b) __attribute__((always_inline)) { return a + b; });
}

/// Applies fold_lanes() to as many rows as a vector has lanes: lane i of the result is the fold of rows[i]. Overwrites
/// the rows.
template <int kRows = 0, class V, class F>
[[gnu::always_inline]] inline V fold_rows(V* rows, F&& join) {
  constexpr int kN = static_cast<int>(sizeof(V) / sizeof(rows[0][0]));
  constexpr int kHalf = (kRows == 0 ? kN : kRows) / 2;
  using Index = std::make_index_sequence<kN>;
  // Each join() reduces two rows to one vector. Recursive, because a loop over rounds would keep the rows in memory.
#pragma GCC unroll 8
  for (int i = 0; i < kHalf; ++i)
    rows[i] = join(lanes_detail::interleave<0>(rows[i], rows[i + kHalf], Index{}),
                   lanes_detail::interleave<1>(rows[i], rows[i + kHalf], Index{}));
  if constexpr (kHalf > 1) fold_rows<kHalf>(rows, join);
  return rows[0];
}

/// Returns a vector whose lane i is the sum of all lanes of rows[i]. Overwrites the rows.
template <class V>
[[gnu::always_inline]] inline V sum_rows(V* rows) {
  return fold_rows(
      rows, [](const V& a, const V& b) __attribute__((always_inline)) { return a + b; });
}

/// Calls f(column, Full{} or Part{n}) over [0, cols), one register of T's computing type at a time.
template <class T, class F>
inline void each_group(std::int64_t cols, F&& f) {
  constexpr int lanes = kWideLanes<T>;
  std::int64_t c = 0;
  for (; c + lanes <= cols; c += lanes) f(c, Full{});
  if (c < cols) f(c, Part{static_cast<int>(cols - c)});
}

/// Calls f(column, number of registers as a compile-time constant, Full{} or Part{n}) over a row: kMost registers (a
/// power of two) at a time, then half as many, down to one.
template <class T, int kMost, class F>
[[gnu::always_inline]] inline void each_sweep(std::int64_t cols, F&& f, std::int64_t c = 0) {
  for (; c + kMost * kWideLanes<T> <= cols; c += kMost * kWideLanes<T>)
    f(c, std::integral_constant<int, kMost>{}, Full{});
  if constexpr (kMost > 1)
    each_sweep<T, kMost / 2>(cols, f, c);
  else if (c < cols)
    f(c, std::integral_constant<int, 1>{}, Part{static_cast<int>(cols - c)});
}

/// Stores consecutive registers. 16-bit values are stored two registers at a time, which fill one cache line.
template <class T, int n, class P>
[[gnu::always_inline]] inline void put_sweep(T* to, const Wide<T> (&v)[n], P part) {
  if constexpr (sizeof(T) == 2 && n % 2 == 0 && std::is_same_v<P, Full>) {
    for (int i = 0; i < n; i += 2) store_two_from_float(to + i * kWideLanes<T>, v[i], v[i + 1]);
  } else {
    for (int i = 0; i < n; ++i) put(to + i * kWideLanes<T>, v[i], part);
  }
}
/// Stores consecutive registers and observes the values.
template <class T, int n, class P, class S>
[[gnu::always_inline]] inline void put_sweep(T* to, const Wide<T> (&v)[n], P part, S& amax) {
  for (int i = 0; i < n; ++i) amax.add(keep(v[i], part));
  put_sweep(to, v, part);
}

/// Stores and observes a row of results: to[c] = value(c, Full{} or Part{n}), a register at a time.
template <class T, class F>
[[gnu::always_inline]] inline void put_row(T* to, std::int64_t cols, AmaxObserver& amax, F&& value) {
  LoopAmaxObserver stored(amax);
  each_sweep<T, 2>(
      cols, [&](std::int64_t c, auto n, auto part) __attribute__((always_inline)) {
        if constexpr (n == 2) {  // written without a loop, because values that are computed by loops would then be kept
                                 // in memory
          const Wide<T> v[] = {value(c, part), value(c + kWideLanes<T>, part)};
          put_sweep(to + c, v, part, stored);
        } else {
          const Wide<T> v[] = {value(c, part)};
          put_sweep(to + c, v, part, stored);
        }
      });
}

/// Returns a register of sums over a row; `add(sum, column, Full{} or Part{n})` returns `sum` with one register added.
/// Four independent sums are used, since in a single one every addition would wait for the previous one. The remainder
/// of the row is added to the first sum, and the four sums are added pairwise.
template <class T, class F>
[[gnu::always_inline]] inline Wide<T> sum_of_groups(std::int64_t cols, F&& add) {
  constexpr int chains = 4, lanes = kWideLanes<T>;
  Wide<T> sum[chains] = {};
  const std::int64_t whole = cols - cols % (chains * lanes);
  for (std::int64_t c = 0; c < whole; c += chains * lanes)
#pragma GCC unroll 4
    for (int i = 0; i < chains; ++i) sum[i] = add(sum[i], c + i * lanes, Full{});
  each_group<T>(cols - whole, [&](std::int64_t c, auto part) { sum[0] = add(sum[0], whole + c, part); });
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace binade::cpu::BINADE_ISA
