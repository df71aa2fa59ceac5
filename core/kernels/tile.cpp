#include "core/kernels/tile.h"

#include <array>
#include <type_traits>
#include <utility>

namespace binade::cpu::BINADE_ISA {
namespace {

template <class T>
inline Vector<T> load_columns(const T* from, int count) {
  if (count >= kLanes<T>) return load_vector<T>(from);
  if constexpr (std::is_same_v<T, float>) {
    return load_part(from, count);
  } else {
    Vector<T> v{};
    for (int i = 0; i < count; ++i) v[i] = from[i];
    return v;
  }
}
template <class T>
inline void store_columns(T* to, const Vector<T>& v, int count) {
  if (count >= kLanes<T>) return store_vector<T>(to, v);
  if constexpr (std::is_same_v<T, float>)
    store_part(to, v, count);
  else
    for (int i = 0; i < count; ++i) to[i] = v[i];
}

/// All bits of the first `count` lanes.
inline VInt first_lanes(int count) {
  VInt lane;
  for (int i = 0; i < kLanes<float>; ++i) lane[i] = i;
  return lane < count;
}

template <class Lane, int kRows, int kVectors>
void run(const TileArgs<Lane>& t) {
  using V = typename Lane::V;
  using Accumulator = typename Lane::Accumulator;
  constexpr int kWidth = kVectorWidth<Lane>;
  constexpr int kGroups = (kRows + 2) / 3;  // three rows share one base register: base, base + row, base + 2 row
  const int tail = t.columns - (kVectors - 1) * kWidth;

  // The tile's lines of C are fetched while the products run.
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) __builtin_prefetch(t.c + i * t.c_row, 1);

  V acc[kRows][kVectors];
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) acc[i][j] = V{};
  if (t.accumulate) {
#pragma GCC unroll 14
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j)
        acc[i][j] = load_columns<Accumulator>(t.c + i * t.c_row + j * kWidth, j + 1 < kVectors ? kWidth : tail);
  }

  const std::int64_t row = t.a_row;
  const std::int64_t a_step = t.a_step;
  const std::int64_t b_step = t.b_step;
  for (std::int64_t s = 0; s < t.segments; ++s) {
    const char* b = t.b + (t.b_offsets ? t.b_offsets[s] : 0);
    const char* a[kGroups];
    a[0] = t.a + (t.a_offsets ? t.a_offsets[s] : 0);
#pragma GCC unroll 5
    for (int g = 1; g < kGroups; ++g) a[g] = a[g - 1] + 3 * row;
    for (std::int64_t k = t.depth; k > 0; --k) {
      V columns[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) columns[j] = Lane::load(b + j * kVectorBytes);
#pragma GCC unroll 14
      for (int i = 0; i < kRows; ++i) {
        const V x = Lane::broadcast(a[i / 3] + (i % 3) * row);
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) acc[i][j] = Lane::madd(x, columns[j], acc[i][j]);
      }
      b += b_step;
#pragma GCC unroll 5
      for (int g = 0; g < kGroups; ++g) a[g] += a_step;
    }
  }

#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j)
      store_columns<Accumulator>(t.c + i * t.c_row + j * kWidth, acc[i][j], j + 1 < kVectors ? kWidth : tail);

  if constexpr (std::is_same_v<Accumulator, float>)
    if (t.seen != nullptr) {
      const VInt last = first_lanes(tail);
      VFloat largest{};
#pragma GCC unroll 14
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j)
          largest = larger_magnitude(largest, j + 1 < kVectors ? acc[i][j] : (VFloat)((VInt)acc[i][j] & last));
      t.seen->add(largest);
    }
}

template <class Lane>
using TileFunction = void (*)(const TileArgs<Lane>&);

template <class Lane, int kVectors, int... kRow>
constexpr auto row_table(std::integer_sequence<int, kRow...>) {
  return std::array<TileFunction<Lane>, sizeof...(kRow)>{&run<Lane, kRow + 1, kVectors>...};
}

}  // namespace

template <class Lane>
void run_tile(const TileArgs<Lane>& t, int rows) {
  using Rows = std::make_integer_sequence<int, kTileRows<Lane>>;
  static constexpr auto narrow = row_table<Lane, 1>(Rows{});
  static constexpr auto wide = row_table<Lane, 2>(Rows{});
  (t.columns <= kVectorWidth<Lane> ? narrow : wide)[static_cast<std::size_t>(rows - 1)](t);
}

template void run_tile(const TileArgs<FloatLane>&, int);
template void run_tile(const TileArgs<DoubleLane>&, int);
#if defined(__AVX512BF16__)
template void run_tile(const TileArgs<Bf16PairLane>&, int);
#endif

}  // namespace binade::cpu::BINADE_ISA
