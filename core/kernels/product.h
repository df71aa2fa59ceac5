#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "binade/core/kernels/epilogue.h"
#include "binade/core/kernels/gemm.h"
#include "binade/core/kernels/pack.h"
#include "binade/core/kernels/scratch.h"

/// The part of a product that one block of work computes: a patch of C, which is some rows of A times some panels of B.
/// Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// Divides k into blocks, and blocks into slices. A is packed one block at a time. AMX tile registers multiply so fast
/// that a tile's part of A and B for one slice must be in the L1 cache. If there are enough other tiles, moving a sum
/// through memory between slices costs less than reading A and B from L2.
template <class Lane>
class Depth {
  static constexpr bool kRegisters = Lane::kGroup > 1;
  // Lanes of a slice; largest number of lanes of a block that is not cut into slices; least number of tiles for slices.
  static constexpr std::int64_t kSlice = 128, kWholeSlice = 192, kEnoughTiles = 4;

 public:
  static constexpr std::int64_t kBlock = 512;  // largest number of lanes of a block

  /// Lanes [begin, end) of k.
  struct Block {
    std::int64_t begin, end, slices;
    std::int64_t lanes() const { return end - begin; }
    /// Returns the first lane of slice i.
    std::int64_t slice(std::int64_t i) const { return begin + cut(i, slices, lanes()); }
  };

  /// Constructs the division for patches of `tiles` tiles per panel.
  Depth(std::int64_t lanes, std::int64_t tiles)
      : blocks(std::max<std::int64_t>(1, ceil_div(lanes, kBlock))),
        lanes_(lanes),
        slice_(kRegisters && tiles >= kEnoughTiles ? kSlice : lanes) {}

  /// Returns block i of k.
  Block block(std::int64_t i) const {
    const std::int64_t begin = cut(i, blocks, lanes_), end = cut(i + 1, blocks, lanes_);
    return {begin, end, slices(end - begin)};
  }

  /// True if k is one block of one slice.
  bool whole() const { return blocks == 1 && slices(lanes_) == 1; }

  const std::int64_t blocks;

 private:
  /// Returns the number of slices of a block.
  std::int64_t slices(std::int64_t lanes) const { return lanes > kWholeSlice ? ceil_div(lanes, slice_) : 1; }
  /// Returns the first lane of part i, of `count` parts that are as even as possible.
  static std::int64_t cut(std::int64_t i, std::int64_t count, std::int64_t lanes) {
    return i == count ? lanes : i * lanes / count / Lane::kGroup * Lane::kGroup;
  }
  const std::int64_t lanes_, slice_;
};

/// Rows [row_begin, row_end) and panels [panel_begin, panel_end) of C in product `index`.
struct Patch {
  std::int64_t index = 0;
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t panel_begin = 0, panel_end = 0;
  std::int64_t column_base = 0;  ///< column of panel 0 in C
};

/// Computes one patch.
template <class Lane, class T, class Out>
class PatchProduct {
  using Accumulator = typename Lane::Accumulator;
  using Stored = typename Lane::Stored;
  using Panels = PackedB<Lane>;
  static constexpr bool kRegisters = Lane::kGroup > 1;
  static constexpr int kDepth = Lane::kDepth;
  static constexpr bool kNative = kDepth == 2 || std::is_same_v<T, Stored>;  // true if A need not be converted
  static constexpr std::int64_t kDirectColumns = 4 * 32;  // with so few columns, packing A does not pay off

 public:
  PatchProduct(const GemmArgs& args, std::int64_t k, const Patch& patch, const Panels& b)
      : g_(args), k_(k), patch_(patch), b_(b), tiles_(patch.row_end - patch.row_begin), depth_(b.lanes, tiles_.tiles) {
    const auto offset = [&patch](const std::int64_t* offsets) { return offsets != nullptr ? offsets[patch.index] : 0; };
    a_ = static_cast<const T*>(g_.a) + offset(g_.a_offsets) + patch.row_begin * g_.a_row;
    const std::int64_t first = offset(g_.c_offsets) + patch.row_begin * g_.c_row;
    c_ = static_cast<Out*>(g_.c) + first;
    if (g_.pre_activation != nullptr) z_ = static_cast<Out*>(g_.pre_activation) + first;
    if (has_derivative()) derivative_at_ = static_cast<const Out*>(g_.derivative_at) + patch.row_begin * g_.c_row;

    // With a packed B, the columns are divided among tasks, each of which would pack A for itself.
    const std::int64_t columns = g_.packed_b == nullptr ? g_.n : (patch.panel_end - patch.panel_begin) * Panels::kWide;
    direct_ = kNative && g_.a_col == 1 && k_ % kDepth == 0 && (kRegisters || columns <= kDirectColumns);
    in_place_ = std::is_same_v<Out, Accumulator> && g_.bias == nullptr && z_ == nullptr &&
                g_.activation == Activation::kNone && !has_derivative() && !g_.accumulate;
    sums_row_ = (depth_.blocks == 1 ? 1 : patch.panel_end - patch.panel_begin) * Panels::kWide;
    const std::int64_t sum_rows = whole_ ? kTileRows<Lane> : patch.row_end - patch.row_begin;
    if (!in_place_)
      sums_ = scratch_of<Accumulator>(ScratchSlot::kAccumulators, static_cast<std::size_t>(sum_rows * sums_row_));
    if (!direct_)
      packed_a_ = scratch_of<Stored>(ScratchSlot::kPackedA,
                                     static_cast<std::size_t>(tiles_.tiles * kTileRows<Lane> *
                                                              (Depth<Lane>::kBlock + Lane::kGroup)));
  }

  /// Computes the patch.
  void run() {
    for (std::int64_t i = 0; i < depth_.blocks; ++i) {
      const Block block = depth_.block(i);
      const bool last_block = i + 1 == depth_.blocks;
      if (!direct_) pack_a(block);
      for (std::int64_t p = patch_.panel_begin; p < patch_.panel_end; ++p) {
        // Prefetches the next panel or, during the last panel, the first one of the next block.
        const bool last_panel = p + 1 == patch_.panel_end;
        const std::int64_t next = last_panel ? patch_.panel_begin : p + 1,
                           lane = last_panel && !last_block ? block.end : block.begin;
        times_panel(block, last_block, p, b_.panel(next) + lane * b_.step_bytes(next));
      }
    }
  }

 private:
  using Block = typename Depth<Lane>::Block;

  bool has_derivative() const { return g_.derivative_of != Activation::kNone; }

  /// Returns the number of elements between the packed rows of two tiles.
  static std::int64_t tile_size(const Block& block) {
    return kTileRows<Lane> * ceil_div(block.lanes(), Lane::kGroup) * Lane::kGroup;
  }

  /// Packs the patch's rows of A for one block of k.
  void pack_a(const Block& block) {
    const std::int64_t k_begin = block.begin * kDepth, k_count = std::min(block.end * kDepth, k_) - k_begin;
    // If neighboring rows are adjacent in memory, packs a few lanes of all tiles at a time, to read memory in order.
    const std::int64_t strip = !kRegisters && g_.a_row == 1 ? 8 * kDepth : k_count;
    for (std::int64_t k = 0; k < k_count; k += strip)
      for (std::int64_t i = 0; i < tiles_.tiles; ++i)
        pack_rows<Lane>(a_ + tiles_.begin(i) * g_.a_row + (k_begin + k) * g_.a_col, g_.a_row, g_.a_col,
                        tiles_.begin(i + 1) - tiles_.begin(i), std::min(strip, k_count - k),
                        packed_a_ + i * tile_size(block) + k / kDepth * kTileRows<Lane>);
  }

  /// Multiplies A by panel p of B for one block of k. The tiles prefetch memory from `ahead` on.
  void times_panel(const Block& block, bool last_block, std::int64_t p, const char* ahead) {
    const std::int64_t share = block.lanes() * b_.step_bytes(p) / tiles_.tiles;  // bytes that each tile prefetches
    TileArgs<Lane> tile;
    tile.b_step = b_.step_bytes(p);
    tile.columns = b_.width(p);
    tile.a_row = direct_ ? g_.a_row * static_cast<std::int64_t>(sizeof(T)) : Lane::kGroup * sizeof(Stored);
    tile.a_step = direct_ ? kDepth * sizeof(T) : kTileRows<Lane> * sizeof(Stored);
    tile.c_row = in_place_ ? g_.c_row : sums_row_;
    for (std::int64_t slice = 0; slice < block.slices; ++slice) {
      const std::int64_t lane = block.slice(slice);
      const char* a = direct_ ? reinterpret_cast<const char*>(a_ + lane * kDepth)
                              : reinterpret_cast<const char*>(packed_a_ + (lane - block.begin) * kTileRows<Lane>);
      const std::int64_t a_tile = tile_size(block) * static_cast<std::int64_t>(sizeof(Stored));
      tile.b = b_.panel(p) + lane * tile.b_step;
      tile.depth = block.slice(slice + 1) - lane;
      tile.accumulate = lane > 0;
      const bool complete = last_block && slice + 1 == block.slices;
      tile.amax = in_place_ && complete && !g_.partial ? &amax_ : nullptr;
      for (std::int64_t i = 0; i < tiles_.tiles; ++i, ahead += share) {
        tile.a = a + (direct_ ? tiles_.begin(i) * tile.a_row : i * a_tile);
        tile.ahead = ahead;
        times_tile(i, p, complete, tile);
      }
      ahead -= tiles_.tiles * share;
    }
  }

  /// Multiplies tile i of A by panel p of B for one slice of k. `complete`: the sums have all their terms afterwards.
  void times_tile(std::int64_t i, std::int64_t p, bool complete, TileArgs<Lane>& tile) {
    const std::int64_t row = tiles_.begin(i), column = patch_.column_base + p * Panels::kWide;
    const int rows = static_cast<int>(tiles_.begin(i + 1) - row);
    const std::int64_t at = row * g_.c_row + column;
    if (in_place_)
      tile.c = reinterpret_cast<Accumulator*>(c_ + at);
    else if (whole_)
      tile.c = sums_;
    else
      tile.c = sums_ + row * sums_row_ + (depth_.blocks == 1 ? 0 : (p - patch_.panel_begin) * Panels::kWide);
    // Prefetches derivative_at while the sums are computed, one cache line per row: its rows are far from those of the
    // last tile.
    for (int r = 0; r < rows && complete && has_derivative(); ++r)
      __builtin_prefetch(derivative_at_ + at + r * g_.c_row, 0, 2);
    unit_.run(tile, rows);
    if (complete && !in_place_) finish(tile, rows, at, column);
  }

  /// Stores complete sums: adds them to C, or applies bias, activation and rounding. `at` is their offset in C,
  /// `column` their first column.
  void finish(const TileArgs<Lane>& tile, int rows, std::int64_t at, std::int64_t column) {
    if constexpr (std::is_same_v<Out, Accumulator>)
      if (g_.accumulate) add_rows(c_ + at, g_.c_row, rows, tile.columns, tile.c, tile.c_row);
    epilogue_.run({.sums = tile.c,
                   .sums_row = tile.c_row,
                   .rows = rows,
                   .columns = tile.columns,
                   .column = column,
                   .y = c_ + at,
                   .z = z_ == nullptr ? nullptr : z_ + at,
                   .derivative_at = derivative_at_ == nullptr ? nullptr : derivative_at_ + at,
                   .row = g_.c_row},
                  amax_);
  }

  const GemmArgs& g_;
  const std::int64_t k_;
  const Patch patch_;
  const Panels b_;
  const EvenTiles<Lane> tiles_;
  const Depth<Lane> depth_;
  const Epilogue<Out> epilogue_{static_cast<const Accumulator*>(g_.bias), g_.activation, g_.derivative_of};
  const T* a_ = nullptr;
  Out *c_ = nullptr, *z_ = nullptr;
  const Out* derivative_at_ = nullptr;
  const bool whole_ = depth_.whole();       // true if a sum is complete after one run of the tile
  bool direct_ = false, in_place_ = false;  // true if tiles read A, or write C, without a copy
  std::int64_t sums_row_ = 0;               // elements between rows of sums_
  Accumulator* sums_ = nullptr;
  Stored* packed_a_ = nullptr;
  AmaxObserver amax_{kDTypeOf<Out>};
  TileUnit<Lane> unit_;
};

}  // namespace binade::cpu::BINADE_ISA
