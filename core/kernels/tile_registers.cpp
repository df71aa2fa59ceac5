#include "binade/core/kernels/tile.h"

#if defined(__AMX_BF16__)

/// The register tile in AMX: C (32, 32) is four registers of (16, 16) floats, with two of A (16 rows, 16 pairs) and two
/// of B (16 pairs, 16 columns). A register's shape limits the bytes that are read, so bytes beyond the end of a row or
/// column are never read.
namespace binade::cpu::BINADE_ISA {
namespace {

constexpr int kSide = 16;  // rows, columns and pairs of one register
constexpr int kSideBytes = 64;
static_assert(Bf16TileLane::kRows == 2 * kSide && kTileColumns<Bf16TileLane> == 2 * kSide &&
              Bf16TileLane::kGroup == kSide);

/// The memory that `ldtilecfg` reads.
struct alignas(64) Shapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
  void set(int tile, int row_count, int bytes) {
    rows[tile] = static_cast<std::uint8_t>(row_count);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};
static_assert(sizeof(Shapes) == 64);

/// Makes the compiler complete all stores first, because the tile instructions do not declare the memory that they read
/// and write.
inline void compiler_memory_barrier(const void* memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

/// Memory of up to 2 x 2 registers of results. below(): the memory of the second row of registers.
struct TileMemory {
  float* data;
  std::int64_t row_bytes;
  float* below() const { return data + kSide * row_bytes / static_cast<std::int64_t>(sizeof(float)); }
};

/// Operations on the registers of results (0 to 3); registers 4 to 7 hold operands.
template <bool kTwoRows, bool kTwoColumns>
struct Registers {
  static void clear() {
    _tile_zero(0);
    if constexpr (kTwoColumns) _tile_zero(1);
    if constexpr (kTwoRows) _tile_zero(2);
    if constexpr (kTwoRows && kTwoColumns) _tile_zero(3);
  }
  static void load(const TileMemory& c) {
    compiler_memory_barrier(c.data);
    _tile_loadd(0, c.data, c.row_bytes);
    if constexpr (kTwoColumns) _tile_loadd(1, c.data + kSide, c.row_bytes);
    if constexpr (kTwoRows) _tile_loadd(2, c.below(), c.row_bytes);
    if constexpr (kTwoRows && kTwoColumns) _tile_loadd(3, c.below() + kSide, c.row_bytes);
  }
  static void save(const TileMemory& c) {
    _tile_stored(0, c.data, c.row_bytes);
    if constexpr (kTwoColumns) _tile_stored(1, c.data + kSide, c.row_bytes);
    if constexpr (kTwoRows) _tile_stored(2, c.below(), c.row_bytes);
    if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, c.below() + kSide, c.row_bytes);
    compiler_memory_barrier(c.data);
  }
  /// Adds groups [begin, end) of each segment.
  static void add(const TileArgs<Bf16TileLane>& t, std::int64_t begin, std::int64_t end) {
    const std::int64_t a_group = kSide * t.a_step, b_group = kSide * t.b_step;
    for (std::int64_t s = 0; s < t.segments; ++s) {
      const char* a = t.a + (t.a_offsets ? t.a_offsets[s] : 0) + begin * a_group;
      const char* b = t.b + (t.b_offsets ? t.b_offsets[s] : 0) + begin * b_group;
      for (std::int64_t group = begin; group < end; ++group, a += a_group, b += b_group) {
        _tile_loadd(4, a, t.a_row);
        _tile_loadd(6, b, t.b_step);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (kTwoColumns) {
          _tile_loadd(7, b + kSideBytes, t.b_step);
          _tile_dpbf16ps(1, 4, 7);
        }
        if constexpr (kTwoRows) {
          _tile_loadd(5, a + kSide * t.a_row, t.a_row);
          _tile_dpbf16ps(2, 5, 6);
          if constexpr (kTwoColumns) _tile_dpbf16ps(3, 5, 7);
        }
      }
    }
  }
};

}  // namespace

TileUnit<Bf16TileLane>::~TileUnit() {
  if (rows_ != 0) _tile_release();
}

void TileUnit<Bf16TileLane>::shape(int rows, int depth) {
  if (rows == rows_ && depth == depth_) return;
  Shapes shapes;
  const int above = rows < kSide ? rows : kSide;
  for (int column = 0; column < 2; ++column) {
    shapes.set(column, above, kSideBytes);
    if (rows > kSide) shapes.set(2 + column, rows - kSide, kSideBytes);
    shapes.set(6 + column, depth, kSideBytes);
  }
  const int pair_bytes = static_cast<int>(sizeof(Bf16TileLane::Stored)) * depth;
  shapes.set(4, above, pair_bytes);
  if (rows > kSide) shapes.set(5, rows - kSide, pair_bytes);
  compiler_memory_barrier(&shapes);
  _tile_loadconfig(&shapes);
  rows_ = rows;
  depth_ = depth;
}

namespace {

/// Copies C to or from a buffer of whole registers, if C has fewer columns than they have.
void copy_columns(const float* from, std::int64_t from_row, float* to, std::int64_t to_row, int rows, int columns) {
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < columns; j += kSide) {
      const int count = columns - j < kSide ? columns - j : kSide;
      store_part(to + r * to_row + j, load_part(from + r * from_row + j, count), count);
    }
}

}  // namespace

void TileUnit<Bf16TileLane>::run(const TileArgs<Bf16TileLane>& t, int rows) {
  const auto run_as = [&]<bool kTwoRows, bool kTwoColumns>() {
    using Tiles = Registers<kTwoRows, kTwoColumns>;
    constexpr int kColumns = kTwoColumns ? 2 * kSide : kSide;
    alignas(64) float sums[2 * kSide * kColumns];
    const bool whole = t.columns == kColumns;
    const TileMemory c{whole ? t.c : sums, (whole ? t.c_row : kColumns) * static_cast<std::int64_t>(sizeof(float))};
    if (!whole && t.accumulate) copy_columns(t.c, t.c_row, sums, kColumns, rows, t.columns);

    const std::int64_t groups = t.depth / kSide;
    const int rest = static_cast<int>(t.depth % kSide);
    shape(rows, groups > 0 || rest == 0 ? kSide : rest);
    t.accumulate ? Tiles::load(c) : Tiles::clear();
    Tiles::add(t, 0, groups);
    if (rest != 0) {
      if (groups > 0) {
        Tiles::save(c);
        shape(rows, rest);  // shape() clears the registers, so they are saved before and loaded afterwards
        Tiles::load(c);
      }
      Tiles::add(t, groups, groups + 1);
    }
    Tiles::save(c);
    if (!whole) copy_columns(sums, kColumns, t.c, t.c_row, rows, t.columns);
    if (t.amax != nullptr)
      for (int r = 0; r < rows; ++r) t.amax->add(t.c + r * t.c_row, t.columns);
  };
  const bool narrow = t.columns <= kSide;
  if (rows > kSide)
    narrow ? run_as.template operator()<true, false>() : run_as.template operator()<true, true>();
  else
    narrow ? run_as.template operator()<false, false>() : run_as.template operator()<false, true>();
}

}  // namespace binade::cpu::BINADE_ISA

#endif
