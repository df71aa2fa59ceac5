#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/kernels/simd.h"

/// The register tile under every product: GEMM, convolution, attention. Only for sources in `kernel_sources`.
namespace binade::cpu::BINADE_ISA {

/// float x float -> float.
struct FloatLane {
  using Stored = float;      ///< what one lane of A and B holds in memory
  using Accumulator = float;
  using V = Vector<float>;
  static constexpr int kDepth = 1;  ///< values of k in one lane
  static V broadcast(const char* p) { return splat(*reinterpret_cast<const float*>(p)); }
  static V load(const char* p) { return load_vector<float>(p); }
  static V madd(V a, V b, V c) { return multiply_add(a, b, c); }
};

/// double x double -> double, for checks.
struct DoubleLane {
  using Stored = double;
  using Accumulator = double;
  using V = Vector<double>;
  static constexpr int kDepth = 1;
  static V broadcast(const char* p) { return splat(*reinterpret_cast<const double*>(p)); }
  static V load(const char* p) { return load_vector<double>(p); }
  static V madd(V a, V b, V c) { return multiply_add(a, b, c); }
};

#if defined(__AVX512BF16__)
/// Pairs of bf16 adjacent in k, one 32-bit lane each, multiplied and added to float by `vdpbf16ps` (subnormals count as
/// zero there).
struct Bf16PairLane {
  using Stored = std::uint32_t;
  using Accumulator = float;
  using V = Vector<float>;
  static constexpr int kDepth = 2;
  static V broadcast(const char* p) { return splat(*reinterpret_cast<const float*>(p)); }
  static V load(const char* p) { return load_vector<float>(p); }
  static V madd(V a, V b, V c) { return (V)_mm512_dpbf16_ps((__m512)c, (__m512bh)(__m512)a, (__m512bh)(__m512)b); }
};
#endif

#if defined(__AVX512F__)
inline constexpr int kTileRows = 14;
#else
inline constexpr int kTileRows = 6;
#endif
inline constexpr int kTileVectors = 2;

template <class Lane>
inline constexpr int kVectorWidth = kVectorBytes / static_cast<int>(sizeof(typename Lane::Accumulator));
template <class Lane>
inline constexpr int kTileColumns = kTileVectors * kVectorWidth<Lane>;

/// One tile of C (+)= A B: `rows` x `columns` accumulators kept in registers over the whole of k. k runs through
/// `segments` pieces of `depth` lanes: piece s starts at a + a_offsets[s] and b + b_offsets[s]. All steps and offsets of
/// A and B are in bytes. Rows of B are read in whole vectors: memory behind the last column must be readable.
/// The sum over k is one chain in the order of k, starting from C when `accumulate`.
template <class Lane>
struct TileArgs {
  using Accumulator = typename Lane::Accumulator;
  const char* a = nullptr;
  std::int64_t a_row = 0;
  std::int64_t a_step = 0;
  const char* b = nullptr;
  std::int64_t b_step = 0;
  std::int64_t segments = 1;
  std::int64_t depth = 0;
  const std::int64_t* a_offsets = nullptr;  ///< null: all 0
  const std::int64_t* b_offsets = nullptr;
  Accumulator* c = nullptr;
  std::int64_t c_row = 0;  ///< elements
  int columns = 0;         ///< 1 … kTileColumns
  bool accumulate = false;
};

namespace tile_detail {

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

template <class Lane, int kRows, int kVectors>
void run(const TileArgs<Lane>& t) {
  using V = typename Lane::V;
  using Accumulator = typename Lane::Accumulator;
  constexpr int kWidth = kVectorWidth<Lane>;
  constexpr int kGroups = (kRows + 2) / 3;  // three rows share one base register: base, base + row, base + 2 row
  const int tail = t.columns - (kVectors - 1) * kWidth;

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
}

template <class Lane>
using TileFunction = void (*)(const TileArgs<Lane>&);

template <class Lane, int kVectors, int... kRow>
constexpr auto row_table(std::integer_sequence<int, kRow...>) {
  return std::array<TileFunction<Lane>, sizeof...(kRow)>{&run<Lane, kRow + 1, kVectors>...};
}

}  // namespace tile_detail

/// Runs the tile with `rows` (1 … kTileRows) rows and t.columns columns.
template <class Lane>
inline void run_tile(const TileArgs<Lane>& t, int rows) {
  using Rows = std::make_integer_sequence<int, kTileRows>;
  static constexpr auto narrow = tile_detail::row_table<Lane, 1>(Rows{});
  static constexpr auto wide = tile_detail::row_table<Lane, 2>(Rows{});
  (t.columns <= kVectorWidth<Lane> ? narrow : wide)[static_cast<std::size_t>(rows - 1)](t);
}

/// Cuts `count` rows into the fewest tiles, as even as they come: tile i of n covers [begin, begin + rows).
struct EvenTiles {
  explicit EvenTiles(std::int64_t total) : count(total), tiles((total + kTileRows - 1) / kTileRows) {}
  std::int64_t begin(std::int64_t i) const { return i * count / tiles; }
  std::int64_t count;
  std::int64_t tiles;
};

}  // namespace binade::cpu::BINADE_ISA
