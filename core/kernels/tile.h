#pragma once

#include <cstdint>

#include "binade/core/kernels/amax_observer.h"

/// The register tile under every product: GEMM, convolution, attention. Only for sources in `kernel_sources`
/// (meson.build).
namespace binade::cpu::BINADE_ISA {

/// Returns a / b, rounded up, for a >= 0 and b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Rows of a register tile of vectors. A processor with AVX-512 has 32 registers, others 16.
#if defined(__AVX512F__)
inline constexpr int kVectorTileRows = 14;
#else
inline constexpr int kVectorTileRows = 6;
#endif

/// The lane that multiplies T by T and adds to T, for float and double (double is used for checks).
template <class T>
struct PlainLane {
  using Stored = T;  ///< memory type of one lane of A and B
  using Accumulator = T;
  using V = Vector<T>;
  static constexpr int kDepth = 1;  ///< values of k in one lane
  static constexpr int kRows = kVectorTileRows;
  static constexpr int kGroup = 1;  ///< lanes of a row of A that must be contiguous
  /// Returns a register with the value at p in every lane.
  static V broadcast(const char* p) { return splat(*reinterpret_cast<const T*>(p)); }
  static V load(const char* p) { return load_vector<T>(p); }
  /// Returns a b + c for each lane.
  static V madd(V a, V b, V c) { return multiply_add(a, b, c); }
};
using FloatLane = PlainLane<float>;
using DoubleLane = PlainLane<double>;

#if defined(__AVX512BF16__)
/// Pairs of bf16 adjacent in k, one 32-bit lane each, multiplied and added to float by `vdpbf16ps` (subnormals count as
/// zero there).
struct Bf16PairLane {
  using Stored = std::uint32_t;
  using Accumulator = float;
  using V = Vector<float>;
  static constexpr int kDepth = 2;
  static constexpr int kRows = kVectorTileRows;
  static constexpr int kGroup = 1;
  static V broadcast(const char* p) {
    float pair;
    std::memcpy(&pair, p, sizeof pair);  // unaligned: a row of a channel slice may begin at an odd bf16
    return splat(pair);
  }
  static V load(const char* p) { return load_vector<float>(p); }
  static V madd(V a, V b, V c) { return (V)_mm512_dpbf16_ps((__m512)c, (__m512bh)(__m512)a, (__m512bh)(__m512)b); }
};
#endif

#if defined(__AMX_BF16__)
/// Pairs of bf16 as in Bf16PairLane, multiplied by `tdpbf16ps` in AMX tile registers: 16 pairs of 16 rows times 16
/// columns per instruction (tile_registers.cpp). Within each 16 pairs, the first members of the pairs are added up in
/// the order of k, and so are the second members; the sum of both is added to C. Subnormals count as zero, in A, B and
/// sums.
struct Bf16TileLane {
  using Stored = std::uint32_t;
  using Accumulator = float;
  static constexpr int kDepth = 2;
  static constexpr int kRows = 32;
  static constexpr int kGroup = 16;
};
#endif

/// Rows of a register tile, and the number of vectors in each.
template <class Lane>
inline constexpr int kTileRows = Lane::kRows;
inline constexpr int kTileVectors = 2;

/// Accumulators per vector, and columns of a register tile.
template <class Lane>
inline constexpr int kVectorWidth = kVectorBytes / static_cast<int>(sizeof(typename Lane::Accumulator));
template <class Lane>
inline constexpr int kTileColumns = kTileVectors* kVectorWidth<Lane>;

/// One tile of C (+)= A B: `rows` x `columns` accumulators stay in registers over the whole of k, which consists of
/// `segments` segments of `depth` lanes: segment s starts at a + a_offsets[s] and b + b_offsets[s]. Steps and offsets
/// of A and B are in bytes. Rows of B are read in whole vectors, so memory after the last column must be readable. The
/// terms of the sum over k are added one after the other in the order of k, starting from C if `accumulate`. Without
/// groups (kGroup 1), either rows of A are contiguous (a_row is a lane's size) or lanes are (a_step is a lane's size).
/// With groups, lanes of A are contiguous within a group, and groups are kGroup * a_step apart (a segment's last one
/// may be shorter).
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
  std::int64_t c_row = 0;  ///< elements between rows of C
  int columns = 0;         ///< 1 … kTileColumns
  bool accumulate = false;
  AmaxObserver* amax = nullptr;  ///< observes C; null while C holds partial sums
  /// Address of B for a later tile; null: this tile's B. The tile prefetches memory from here on into L2, one byte for
  /// every four that it reads of a full panel of B. Tiles in AMX registers prefetch nothing.
  const char* ahead = nullptr;
};

/// Runs the tile with `rows` (1 … kTileRows) rows and t.columns columns.
template <class Lane>
void run_tile(const TileArgs<Lane>& t, int rows);

/// Runs tiles. Each task has its own TileUnit, and only one exists at a time per thread, because AMX lanes keep
/// processor state between tiles.
template <class Lane>
struct TileUnit {
  void run(const TileArgs<Lane>& t, int rows) { run_tile(t, rows); }
};

#if defined(__AMX_BF16__)
template <>
class TileUnit<Bf16TileLane> {
 public:
  TileUnit() = default;
  TileUnit(const TileUnit&) = delete;
  TileUnit& operator=(const TileUnit&) = delete;
  ~TileUnit();  ///< releases the tile registers
  void run(const TileArgs<Bf16TileLane>& t, int rows);

 private:
  /// Sets the shape of the registers for tiles of `rows` rows and `depth` pairs.
  void shape(int rows, int depth);
  int rows_ = 0, depth_ = 0;  ///< current shape of the AMX registers; 0: not set
};
#endif

/// Cuts `count` rows into the fewest tiles, as evenly as possible (into whole tiles for AMX registers): tile i covers
/// [begin(i), begin(i + 1)).
template <class Lane>
struct EvenTiles {
  explicit EvenTiles(std::int64_t total) : count(total), tiles((total + kTileRows<Lane> - 1) / kTileRows<Lane>) {}
  /// Returns the first row of tile i.
  std::int64_t begin(std::int64_t i) const {
    if constexpr (Lane::kGroup > 1) return i < tiles ? i * kTileRows<Lane> : count;
    return i * count / tiles;
  }
  std::int64_t count;
  std::int64_t tiles;
};

}  // namespace binade::cpu::BINADE_ISA
