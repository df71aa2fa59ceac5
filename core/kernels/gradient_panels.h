#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "binade/core/kernels/conv.h"
#include "binade/core/kernels/image.h"
#include "binade/core/kernels/pack.h"

/// The operands of a convolution's weight gradient: blocks of pixels, in the order in which the register tile sums
/// them. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// The part that both kinds of panels share. A block consists of `block_rows` rows of the result.
struct GradientPanels {
  GradientPanels(const ConvWeightArgs& conv, std::int64_t rows, std::int64_t wide, std::int64_t narrow)
      : args(conv),
        s(conv.shape),
        block_rows(rows),
        channels(s.channels / s.groups),
        filters(s.filters / s.groups),
        panels((channels + wide - 1) / wide),
        panel_width(channels <= narrow ? narrow : wide) {}

  /// Returns the number of rows of x that `rows` rows of the result read.
  std::int64_t source_rows(std::int64_t rows) const {
    return (rows - 1) * s.stride[0] + (s.filter_height - 1) * s.dilation[0] + 1;
  }
  /// Returns the address of a channel of the first pixel of image n of x. `bytes`: size of an element.
  const void* x_image(std::int64_t n, std::int64_t channel, std::int64_t bytes) const {
    return static_cast<const char*>(args.x) + (n * s.height * s.width * args.x_pitch + channel) * bytes;
  }
  /// Returns the address of the first pixel of a row of image n of gy.
  const void* gy_row(std::int64_t n, std::int64_t row, std::int64_t bytes) const {
    return static_cast<const char*>(args.gy) + (n * s.out_height + row) * s.out_width * args.gy_pitch * bytes;
  }

  const ConvWeightArgs& args;
  const ConvShape& s;
  std::int64_t block_rows;
  std::int64_t channels, filters;        ///< channels and filters of one group
  std::int64_t panels, panel_width;      ///< number of panels of channels, and number of channels of a panel
  std::int64_t x_size = 0, gy_size = 0;  ///< number of lanes of a block
};

/// Panels for lanes that hold one pixel. x is stored as (group, panel, row, column, channel) including its border of
/// zeros, gy as (group, tile, pixel, filter).
template <class L, class T>
struct PixelPanels : GradientPanels {
  using Lane = L;
  using Stored = typename Lane::Stored;
  static constexpr int kWide = kTileColumns<Lane>;
  static constexpr std::int64_t kLaneBytes = sizeof(Stored);

  PixelPanels(const ConvWeightArgs& conv, std::int64_t rows) : GradientPanels(conv, rows, kWide, kVectorWidth<Lane>) {
    columns = (s.out_width - 1) * s.stride[1] + (s.filter_width - 1) * s.dilation[1] + 1;
    x_panel = source_rows(rows) * columns * panel_width;
    tiles = EvenTiles<Lane>(filters).tiles;
    gy_panel = rows * s.out_width * kTileRows<Lane>;
    x_size = s.groups * panels * x_panel + 64;
    gy_size = s.groups * tiles * gy_panel;
  }

  /// Copies rows [row, row + rows) of image n of gy to `gy`, and the pixels of x that forward read for them to `x`.
  void fill(std::int64_t n, std::int64_t row, std::int64_t rows, Stored* x, Stored* gy) const {
    for (std::int64_t g = 0; g < s.groups; ++g)
      for (std::int64_t p = 0; p < panels; ++p) {
        const std::int64_t width = std::min<std::int64_t>(panel_width, channels - p * kWide);
        const auto* from = static_cast<const T*>(x_image(n, g * channels + p * kWide, sizeof(T)));
        const Image<T> image{from, s.height, s.width, width, 1, args.x_pitch};
        copy_with_border<Lane>(image, row * s.stride[0] - s.padding[0], source_rows(rows), -s.padding[1], columns,
                               panel_width, x + (g * panels + p) * x_panel);
      }
    const auto* pixels = static_cast<const T*>(gy_row(n, row, sizeof(T)));
    const EvenTiles<Lane> even(filters);
    for (std::int64_t g = 0; g < s.groups; ++g)
      for (std::int64_t i = 0; i < tiles; ++i) {
        const T* from = pixels + g * filters + even.begin(i);
        const std::int64_t width = even.begin(i + 1) - even.begin(i);
        Stored* to = gy + (g * tiles + i) * gy_panel;
        for (std::int64_t pixel = 0; pixel < rows * s.out_width; ++pixel)
          to_lanes<Lane>(from + pixel * args.gy_pitch, width, to + pixel * kTileRows<Lane>);
      }
  }

  /// Sets the segments and offsets by which the tile reads `rows` rows.
  void segment(std::int64_t rows, TileArgs<Lane>& tile, std::vector<std::int64_t>& a_offsets,
               std::vector<std::int64_t>& b_offsets) const {
    tile.segments = rows;
    tile.depth = s.out_width;
    tile.a_row = kLaneBytes;
    tile.a_step = kTileRows<Lane> * kLaneBytes;
    tile.b_step = s.stride[1] * panel_width * kLaneBytes;
    for (std::int64_t row = 0; row < rows; ++row) {
      a_offsets.push_back(row * s.out_width * tile.a_step);
      b_offsets.push_back(row * s.stride[0] * columns * panel_width * kLaneBytes);
    }
  }
  /// Returns the part of gy for filter tile i, counted across groups.
  const char* filters_of(const Stored* gy, std::int64_t i) const {
    return reinterpret_cast<const char*>(gy + i * gy_panel);
  }
  /// Returns the part of x for panel p of group g at filter position (r, c).
  const char* channels_of(const Stored* x, std::int64_t g, std::int64_t p, std::int64_t r, std::int64_t c) const {
    const std::int64_t shift = r * s.dilation[0] * columns + c * s.dilation[1];
    return reinterpret_cast<const char*>(x + (g * panels + p) * x_panel + shift * panel_width);
  }

  std::int64_t columns, x_panel, tiles, gy_panel;
};

/// Panels for lanes that hold two neighbors of a result row. Which pixels of x form a pair depends on the filter's
/// column, so x is stored in several planes: (group, panel, plane, row, pair, channel). If `shared`, filter columns at
/// even distances in pixels share one plane, in which each begins some pairs further to the right. Otherwise each
/// column has its own plane. gy is (group, tile, set of kGroup pairs, filter, pair). If the pairs of all rows are
/// contiguous in both x and gy, they are one segment of the tile; otherwise each row is one.
template <class L>
struct PairPanels : GradientPanels {
  using Lane = L;
  using Stored = typename Lane::Stored;
  static constexpr int kWide = kTileColumns<Lane>;
  static constexpr std::int64_t kLaneBytes = sizeof(Stored);

  PairPanels(const ConvWeightArgs& conv, std::int64_t rows) : GradientPanels(conv, rows, kWide, kVectorWidth<Lane>) {
    row_pairs = (s.out_width + 1) / 2;
    shared = s.stride[1] == 1 && s.filter_width > 2 && s.out_width % 32 == 0;
    one_segment = !shared && s.stride[0] == 1 && s.out_width % 2 == 0;
    planes = shared ? 1 + s.dilation[1] % 2 : s.filter_width;
    plane_pairs = row_pairs + (shared ? (s.filter_width - 1) * s.dilation[1] / 2 : 0);
    x_plane = source_rows(rows) * plane_pairs * panel_width;
    tiles = EvenTiles<Lane>(filters).tiles;
    gy_segment = groups_of(one_segment ? rows * row_pairs : row_pairs) * Lane::kGroup * kTileRows<Lane>;
    gy_panel = gy_segment * (one_segment ? 1 : rows);
    x_size = s.groups * panels * planes * x_plane + 64;
    gy_size = s.groups * tiles * gy_panel;
  }

  /// Copies the block of `rows` rows of the result from `row` on, in image n, to x and gy.
  void fill(std::int64_t n, std::int64_t row, std::int64_t rows, Stored* x, Stored* gy) const {
    for (std::int64_t g = 0; g < s.groups; ++g)
      for (std::int64_t p = 0; p < panels; ++p) {
        const std::int64_t width = std::min<std::int64_t>(panel_width, channels - p * kWide);
        const auto* from = static_cast<const bfloat16*>(x_image(n, g * channels + p * kWide, sizeof(bfloat16)));
        for (std::int64_t c = 0; c < planes; ++c)
          for (std::int64_t r = 0; r < source_rows(rows); ++r) {
            const std::int64_t y = row * s.stride[0] - s.padding[0] + r;
            pair_row(y < 0 || y >= s.height ? nullptr : from + y * s.width * args.x_pitch, c, width,
                     x + ((g * panels + p) * planes + c) * x_plane + r * plane_pairs * panel_width);
          }
      }
    const auto* pixels = static_cast<const bfloat16*>(gy_row(n, row, sizeof(bfloat16)));
    const EvenTiles<Lane> even(filters);
    const std::int64_t segments = one_segment ? 1 : rows, segment_pixels = s.out_width * (one_segment ? rows : 1);
    for (std::int64_t g = 0; g < s.groups; ++g)
      for (std::int64_t i = 0; i < tiles; ++i)
        for (std::int64_t segment_index = 0; segment_index < segments; ++segment_index)
          pack_rows<Lane>(pixels + segment_index * s.out_width * args.gy_pitch + g * filters + even.begin(i), 1,
                          args.gy_pitch, even.begin(i + 1) - even.begin(i), segment_pixels,
                          gy + (g * tiles + i) * gy_panel + segment_index * gy_segment);
  }

  /// Sets the fields of `tile` and the offsets of segments for a block of `rows` rows.
  void segment(std::int64_t rows, TileArgs<Lane>& tile, std::vector<std::int64_t>& a_offsets,
               std::vector<std::int64_t>& b_offsets) const {
    tile.segments = one_segment ? 1 : rows;
    tile.depth = one_segment ? rows * row_pairs : row_pairs;
    tile.a_row = Lane::kGroup * kLaneBytes;
    tile.a_step = kTileRows<Lane> * kLaneBytes;
    tile.b_step = panel_width * kLaneBytes;
    for (std::int64_t segment_index = 0; segment_index < tile.segments; ++segment_index) {
      a_offsets.push_back(segment_index * gy_segment * kLaneBytes);
      b_offsets.push_back(segment_index * s.stride[0] * plane_pairs * panel_width * kLaneBytes);
    }
  }
  /// Returns the operand of filter tile i, counted across groups.
  const char* filters_of(const Stored* gy, std::int64_t i) const {
    return reinterpret_cast<const char*>(gy + i * gy_panel);
  }
  /// Returns the operand of panel p of group g for the filter position (r, c).
  const char* channels_of(const Stored* x, std::int64_t g, std::int64_t p, std::int64_t r, std::int64_t c) const {
    const std::int64_t plane = shared ? c * s.dilation[1] % 2 : c;
    const std::int64_t pair = r * s.dilation[0] * plane_pairs + (c - plane) * (shared ? s.dilation[1] : 0) / 2;
    return reinterpret_cast<const char*>(x + ((g * panels + p) * planes + plane) * x_plane + pair * panel_width);
  }

  /// Returns the number of groups of lanes that contain `pairs` pairs.
  static std::int64_t groups_of(std::int64_t pairs) { return (pairs + Lane::kGroup - 1) / Lane::kGroup; }

  /// Copies, as pairs, the pixels of one row of x (null: outside) that filter column c reads, and the following ones,
  /// which other filter columns of the same plane read.
  void pair_row(const bfloat16* row, std::int64_t c, std::int64_t width, Stored* to) const {
    const std::int64_t first = c * s.dilation[1] - s.padding[1];
    const auto pixel = [&](std::int64_t q) -> const bfloat16* {
      const std::int64_t column = first + q * s.stride[1];
      const bool inside = row != nullptr && column >= 0 && column < s.width;
      return inside && (shared || q < s.out_width) ? row + column * args.x_pitch : nullptr;
    };
    for (std::int64_t pair = 0; pair < plane_pairs; ++pair, to += panel_width) {
      const bfloat16 *low = pixel(2 * pair), *high = pixel(2 * pair + 1);
      if (low != nullptr && high != nullptr && width == panel_width) {
        for (std::int64_t j = 0; j < panel_width; j += kLanes<float>)
          store_vector<float>(to + j, pack_detail::pair(low + j, high + j));
        continue;
      }
      for (std::int64_t j = 0; j < panel_width; j += kLanes<float>) {
        const int count = static_cast<int>(std::clamp<std::int64_t>(width - j, 0, kLanes<float>));
        store_vector<float>(to + j, pack_detail::pair(low == nullptr ? low : low + j, high == nullptr ? high : high + j,
                                                      count));
      }
    }
  }

  /// row_pairs: pairs in a row of gy. x consists of `planes` planes with plane_pairs pairs per row and x_plane lanes
  /// each. tiles: tiles of filters. gy_segment and gy_panel: lanes of a segment and of a panel of gy.
  std::int64_t row_pairs, planes, plane_pairs, x_plane, tiles, gy_segment, gy_panel;
  /// shared: filter columns of the same parity share the pairs of x. one_segment: all rows of a block are one segment
  /// of the register tile.
  bool shared, one_segment;
};

template <class Lane, class T>
using GradientPanelsOf = std::conditional_t<Lane::kDepth == 2, PairPanels<Lane>, PixelPanels<Lane, T>>;

}  // namespace binade::cpu::BINADE_ISA
