#include "binade/core/kernels/tile.h"

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

/// Returns a mask with all bits set in the first `count` lanes.
inline VInt first_lanes(int count) {
  VInt lane;
  for (int i = 0; i < kLanes<float>; ++i) lane[i] = i;
  return lane < count;
}

/// The addresses of the kRows rows of A. With kRowsAdjacent, values of adjacent rows are adjacent in memory, and one
/// register addresses all rows. Otherwise the lanes of a row are adjacent, and seven rows share a base register: rows
/// 1 to 6 are 1, 2 or 4 times an offset of 1, 3 or 5 rows after row 0, which an x86 address can encode.
template <class Lane, int kRows, bool kRowsAdjacent>
class RowsOfA {
  static constexpr int kBases = kRowsAdjacent ? 1 : (kRows + 6) / 7;
  static constexpr std::int64_t kLaneBytes = sizeof(typename Lane::Stored);

 public:
  RowsOfA(const char* a, std::int64_t row, std::int64_t step)
      : row_(row), three_(3 * row), five_(5 * row), step_(step) {
    base_[0] = a;
    if constexpr (kBases > 1) base_[1] = a + 7 * row;
  }
  /// Broadcasts lane 0 or 1 of row i.
  typename Lane::V broadcast(int i, int lane) const {
    if constexpr (kRowsAdjacent)
      return Lane::broadcast(base_[0] + lane * step_ + i * kLaneBytes);
    else
      return Lane::broadcast(base_[i / 7] + row_offset(i % 7) + lane * kLaneBytes);
  }
  void advance(int lanes) {
#pragma GCC unroll 2
    for (int g = 0; g < kBases; ++g) base_[g] += lanes * (kRowsAdjacent ? step_ : kLaneBytes);
  }

 private:
  [[gnu::always_inline]] std::int64_t row_offset(int rows) const {
    return rows == 5 ? five_ : rows % 3 == 0 ? rows / 3 * three_ : rows * row_;
  }

  const char* base_[kBases];
  std::int64_t row_, three_, five_, step_;
};

template <class Lane, int kRows, int kVectors, bool kRowsAdjacent>
void run(const TileArgs<Lane>& t) {
  using V = typename Lane::V;
  using Accumulator = typename Lane::Accumulator;
  constexpr int kWidth = kVectorWidth<Lane>;
  const int tail = t.columns - (kVectors - 1) * kWidth;

  // Rows of C are far apart, so no hardware prefetcher fetches the rows of the next tile.
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) __builtin_prefetch(t.c + i * t.c_row + j * kWidth, 1);

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

  const std::int64_t b_step = t.b_step;
  const char* ahead = t.ahead == nullptr ? t.b : t.ahead;
  for (std::int64_t s = 0; s < t.segments; ++s) {
    const char* b = t.b + (t.b_offsets ? t.b_offsets[s] : 0);
    RowsOfA<Lane, kRows, kRowsAdjacent> a(t.a + (t.a_offsets ? t.a_offsets[s] : 0), t.a_row, t.a_step);
    const auto multiply = [&](int lane) __attribute__((always_inline)) {
      V columns[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) columns[j] = Lane::load(b + lane * b_step + j * kVectorBytes);
#pragma GCC unroll 14
      for (int i = 0; i < kRows; ++i) {
        const V x = a.broadcast(i, lane);
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) acc[i][j] = Lane::madd(x, columns[j], acc[i][j]);
      }
    };
    // Two lanes per iteration, since pointer additions compete with the multiply-adds for execution ports.
    std::int64_t k = t.depth;
    for (; k >= 2; k -= 2) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += kVectorBytes;
      multiply(0);
      multiply(1);
      a.advance(2);
      b += 2 * b_step;
    }
    if (k > 0) multiply(0);
  }

#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j)
      store_columns<Accumulator>(t.c + i * t.c_row + j * kWidth, acc[i][j], j + 1 < kVectors ? kWidth : tail);

  if constexpr (std::is_same_v<Accumulator, float>)
    if (t.amax != nullptr) {
      const VInt last = first_lanes(tail);
      VFloat largest{};
#pragma GCC unroll 14
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j)
          largest = larger_magnitude(largest, j + 1 < kVectors ? acc[i][j] : (VFloat)((VInt)acc[i][j] & last));
      t.amax->add(largest);
    }
}

template <class Lane>
using TileFunction = void (*)(const TileArgs<Lane>&);

template <class Lane, int kVectors, bool kRowsAdjacent, int... kRow>
constexpr auto row_table(std::integer_sequence<int, kRow...>) {
  return std::array<TileFunction<Lane>, sizeof...(kRow)>{&run<Lane, kRow + 1, kVectors, kRowsAdjacent>...};
}
/// The tile functions, by the number of rows minus one.
template <class Lane, int kVectors, bool kRowsAdjacent>
constexpr auto kTiles = row_table<Lane, kVectors, kRowsAdjacent>(std::make_integer_sequence<int, kTileRows<Lane>>{});

}  // namespace

template <class Lane>
void run_tile(const TileArgs<Lane>& t, int rows) {
  const bool rows_adjacent = t.a_row == sizeof(typename Lane::Stored);
  const auto& narrow = rows_adjacent ? kTiles<Lane, 1, true> : kTiles<Lane, 1, false>;
  const auto& wide = rows_adjacent ? kTiles<Lane, 2, true> : kTiles<Lane, 2, false>;
  (t.columns <= kVectorWidth<Lane> ? narrow : wide)[static_cast<std::size_t>(rows - 1)](t);
}

template void run_tile(const TileArgs<FloatLane>&, int);
template void run_tile(const TileArgs<DoubleLane>&, int);
#if defined(__AVX512BF16__)
template void run_tile(const TileArgs<Bf16PairLane>&, int);
#endif

}  // namespace binade::cpu::BINADE_ISA
