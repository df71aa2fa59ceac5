#include "binade/core/kernels/conv.h"

#include <algorithm>
#include <vector>

#include "binade/core/kernels/conv_depthwise.h"
#include "binade/core/kernels/conv_sweep.h"
#include "binade/core/kernels/epilogue.h"
#include "binade/core/kernels/gemm.h"
#include "binade/core/kernels/image.h"
#include "binade/core/kernels/lane_types.h"
#include "binade/core/kernels/pack.h"
#include "binade/core/kernels/scratch.h"
#include "binade/core/parallel.h"

/// Direct convolution without im2col: a few rows of an image are copied with a border of zeros, so that they fit in the
/// L2 cache, and their pixels are broadcast against packed filters. The data gradient is computed in the same way from
/// gy and transposed filters, once for each phase (position of a pixel of gx modulo the stride).
namespace binade::cpu::BINADE_ISA {

const GemmKernels& gemm_kernels();
void conv_weight_gradient(const ConvWeightArgs& args);

namespace {

/// Number of lanes of k that are summed in a result tile before the next tile is begun. With AMX tile registers, the
/// number is small enough that both operands stay in the L1 cache.
template <class Lane>
constexpr std::int64_t kDepthBlock = Lane::kGroup > 1 ? 128 : 384;
constexpr std::int64_t kSourceBytes = 192 << 10;  ///< copied image rows of a task, in bytes
constexpr std::int64_t kEnoughTasks = 16;         ///< wanted number of tasks, so that all threads have work
constexpr std::int64_t kLeastColumns = 128;       ///< least number of pixels in each part of a row that is cut
// Limits in bytes. Filters larger than kManyFilterBytes are packed panel by panel (by_filters()) instead of once for
// all tasks (by_rows()), unless the copies of all images exceed kManyFilterSource or a panel exceeds kManyFilterPanel.
constexpr std::int64_t kManyFilterBytes = 1 << 20;
constexpr std::int64_t kManyFilterSource = 4 << 20;
constexpr std::int64_t kManyFilterPanel = 1 << 20;

/// Filters of up to kWide result channels, packed for the register tile.
template <class Lane>
struct FilterPanel {
  const char* data = nullptr;
  std::int64_t step = 0;  ///< bytes between lanes of k
  int width = 0;
};

/// Computes a convolution of images of T, or its data gradient, with lanes of type Lane.
template <class Lane, class T, class Out>
class Convolution {
  using Stored = typename Lane::Stored;
  using Accumulator = typename Lane::Accumulator;
  static constexpr int kWide = PackedB<Lane>::kWide;
  static constexpr std::int64_t kLaneBytes = sizeof(Stored);

 public:
  /// `source` is the first image; image n is n * pixels * pitch elements later. The same holds for the result.
  Convolution(const Image<T>& source, std::int64_t images, std::int64_t result_height, std::int64_t result_width,
              std::int64_t result_channels, const ConvArgs& args)
      : source_(source),
        images_(images),
        result_height_(result_height),
        result_width_(result_width),
        result_channels_(result_channels),
        args_(args) {
    group_lanes_ = ceil_div(source.channels, Lane::kDepth);
    pixel_lanes_ = group_lanes_ * source.groups;
    // Pixels a multiple of 4 KiB apart would map to one L1 cache set.
    if (pixel_lanes_ * kLaneBytes % 4096 == 0) pixel_lanes_ += 64 / kLaneBytes;
  }

  void run(const Sweep& sweep) {
    if (sweep.height <= 0 || sweep.width <= 0) return;
    const std::int64_t taps = static_cast<std::int64_t>(sweep.taps.size());
    panels_ = PackedB<Lane>::panels(result_channels_);
    y_low_ = x_low_ = y_high_ = x_high_ = 0;
    for (std::int64_t t = 0; t < taps; ++t) {
      const Tap& tap = sweep.taps[static_cast<std::size_t>(t)];
      y_low_ = t == 0 ? tap.y : std::min(y_low_, tap.y);
      x_low_ = t == 0 ? tap.x : std::min(x_low_, tap.x);
      y_high_ = t == 0 ? tap.y : std::max(y_high_, tap.y);
      x_high_ = t == 0 ? tap.x : std::max(x_high_, tap.x);
    }
    joined_ = joined(sweep.taps);
    read_columns(sweep, sweep.width);

    const std::int64_t source_rows = (sweep.height - 1) * sweep.source_step[0] + y_high_ - y_low_ + 1;
    const std::int64_t source_bytes = images_ * source_rows * columns_ * pixel_lanes_ * kLaneBytes;
    const std::int64_t panel_bytes = taps * group_lanes_ * kWide * kLaneBytes;
    const bool many_filters = panels_ * source_.groups >= 4 &&
                              panels_ * source_.groups * panel_bytes > kManyFilterBytes;
    if (taps > 0 && many_filters && source_bytes <= kManyFilterSource && panel_bytes <= kManyFilterPanel)
      by_filters(sweep, source_rows);
    else
      by_rows(sweep);
  }

 private:
  /// Sets the number of columns of a source row that `width` pixels of the result read, and the offsets of segments in
  /// copied rows with this number of columns.
  void read_columns(const Sweep& sweep, std::int64_t width) {
    const std::int64_t taps = static_cast<std::int64_t>(sweep.taps.size());
    columns_ = taps > 0 ? (width - 1) * sweep.source_step[1] + x_high_ - x_low_ + 1 : 0;
    a_offsets_.clear();
    for (std::int64_t t = 0; t < taps; t += joined_) {
      const Tap& tap = sweep.taps[static_cast<std::size_t>(t)];
      a_offsets_.push_back(((tap.y - y_low_) * columns_ + tap.x - x_low_) * pixel_lanes_ * kLaneBytes);
    }
  }

  /// Returns the number of pixels of a result row that one task computes, if the rows of an image form `blocks` blocks:
  /// the whole row, unless a source row is too long for the cache or whole rows would give too few tasks.
  std::int64_t task_width(const Sweep& sweep, std::int64_t blocks) const {
    const std::int64_t row_bytes = columns_ * pixel_lanes_ * kLaneBytes;
    const std::int64_t cuts = std::max(ceil_div(row_bytes, kSourceBytes), ceil_div(kEnoughTasks, images_ * blocks));
    const std::int64_t width = std::max(ceil_div(sweep.width, cuts), kLeastColumns);
    return std::min(sweep.width, ceil_div(width, kTileRows<Lane>) * kTileRows<Lane>);
  }

  /// The order of work for few filters: the filters are packed once, then each task computes some rows of an image,
  /// or a part of them.
  void by_rows(const Sweep& sweep) {
    const std::int64_t taps = static_cast<std::int64_t>(sweep.taps.size());
    const std::int64_t all_panels = panels_ * source_.groups;
    const std::int64_t panel_size = taps * group_lanes_ * kWide;
    Stored* packed = scratch_of<Stored>(ScratchSlot::kShared, static_cast<std::size_t>(panel_size * all_panels));
    const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / std::max<std::int64_t>(1, panel_size));
    parallel_for(all_panels, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) pack_panel_of(sweep, i, packed + i * panel_size);
    });
    const std::int64_t row_bytes = columns_ * pixel_lanes_ * kLaneBytes * sweep.source_step[0];
    std::int64_t blocks = ceil_div(sweep.height,
                                   std::max<std::int64_t>(1, kSourceBytes / std::max<std::int64_t>(1, row_bytes)));
    while (images_ * blocks < kEnoughTasks && ceil_div(sweep.height, blocks) >= 8) blocks *= 2;
    const std::int64_t width = task_width(sweep, blocks), cuts = ceil_div(sweep.width, width);
    if (cuts > 1) read_columns(sweep, width);
    const std::int64_t all_blocks = images_ * blocks * cuts;
    const std::int64_t parts = std::clamp<std::int64_t>(kEnoughTasks / all_blocks, 1, ceil_div(all_panels, 2));
    parallel_blocks(all_blocks * parts, [&](std::int64_t task) {
      const std::int64_t part = task % parts, cut = task / parts % cuts, block = task / parts / cuts % blocks;
      const std::int64_t n = task / parts / cuts / blocks;
      const Columns columns{cut * width, std::min(sweep.width, (cut + 1) * width)};
      const std::int64_t begin = block * sweep.height / blocks, end = (block + 1) * sweep.height / blocks;
      const std::int64_t source_rows = (end - 1 - begin) * sweep.source_step[0] + y_high_ - y_low_ + 1;
      Stored* pixels = scratch_of<Stored>(ScratchSlot::kImage,
                                          static_cast<std::size_t>(source_rows * columns_ * pixel_lanes_));
      if (taps > 0)
        copy_rows(n, begin * sweep.source_step[0] + y_low_, source_rows, columns.begin * sweep.source_step[1] + x_low_,
                  pixels);
      for (std::int64_t i = part * all_panels / parts; i < (part + 1) * all_panels / parts; ++i)
        sweep_rows(sweep, panel(i, packed + i * panel_size), i, n, begin, end, columns, pixels);
    });
  }

  /// The order of work for many filters and small images: all images are copied once, then each task packs one panel of
  /// filters, which stays in its cache, and applies it to all images.
  void by_filters(const Sweep& sweep, std::int64_t source_rows) const {
    const std::int64_t panel_size = static_cast<std::int64_t>(sweep.taps.size()) * group_lanes_ * kWide;
    const std::int64_t image_size = source_rows * columns_ * pixel_lanes_;
    Stored* pixels = scratch_of<Stored>(ScratchSlot::kShared, static_cast<std::size_t>(images_ * image_size));
    parallel_blocks(images_,
                    [&](std::int64_t n) { copy_rows(n, y_low_, source_rows, x_low_, pixels + n * image_size); });
    parallel_blocks(panels_ * source_.groups, [&](std::int64_t i) {
      Stored* packed = scratch_of<Stored>(ScratchSlot::kPackedB, static_cast<std::size_t>(panel_size));
      pack_panel_of(sweep, i, packed);
      for (std::int64_t n = 0; n < images_; ++n)
        sweep_rows(sweep, panel(i, packed), i, n, 0, sweep.height, {0, sweep.width}, pixels + n * image_size);
    });
  }

  /// Returns the number of taps in one segment of the tile (TileArgs): all taps of a filter row if their source pixels
  /// are adjacent and they have at most kDepthBlock lanes, otherwise 1.
  std::int64_t joined(const std::vector<Tap>& taps) const {
    const auto other = std::find_if(taps.begin(), taps.end(), [&](const Tap& tap) { return tap.y != taps[0].y; });
    const std::int64_t row = other - taps.begin();
    if (row == 0 || pixel_lanes_ != group_lanes_ || row * group_lanes_ > kDepthBlock<Lane>) return 1;
    return taps[static_cast<std::size_t>(row - 1)].x - taps[0].x == row - 1 ? row : 1;
  }

  /// The segments [begin, end) that read rows inside the image for row `row` of the sweep; the others would add zeros.
  struct Inside {
    std::int64_t begin, end;
  };
  Inside inside(const Sweep& sweep, std::int64_t row) const {
    const auto y = [&](std::int64_t segment) {
      return row * sweep.source_step[0] + sweep.taps[static_cast<std::size_t>(segment * joined_)].y;
    };
    Inside all{0, static_cast<std::int64_t>(a_offsets_.size())};
    while (all.begin < all.end && y(all.begin) < 0) ++all.begin;
    while (all.begin < all.end && y(all.end - 1) >= source_.height) --all.end;
    return all;
  }

  void copy_rows(std::int64_t n, std::int64_t y, std::int64_t rows, std::int64_t x, Stored* to) const {
    Image<T> image = source_;
    image.data += n * source_.height * source_.width * source_.pitch;
    copy_with_border<Lane>(image, y, rows, x, columns_, pixel_lanes_, to);
  }

  FilterPanel<Lane> panel(std::int64_t i, const Stored* packed) const {
    const int width = static_cast<int>(std::min<std::int64_t>(kWide, result_channels_ - i % panels_ * kWide));
    return {reinterpret_cast<const char*>(packed),
            (width <= PackedB<Lane>::kNarrow ? PackedB<Lane>::kNarrow : kWide) * kLaneBytes, width};
  }

  /// Packs panel i, counted across all groups, one tap after another.
  void pack_panel_of(const Sweep& sweep, std::int64_t i, Stored* to) const {
    const FilterPanel<Lane> shape = panel(i, to);
    const T* filters = static_cast<const T*>(args_.filter) + i / panels_ * sweep.filter_group +
                       i % panels_ * kWide * sweep.filter_j;
    for (const Tap& tap : sweep.taps) {
      const T* from = filters + tap.index * sweep.filter_position;
      if (shape.width <= PackedB<Lane>::kNarrow)
        pack_panel<Lane, T, PackedB<Lane>::kNarrow>(from, sweep.filter_j, sweep.filter_i, shape.width, source_.channels,
                                                    to);
      else
        pack_panel<Lane, T, kWide>(from, sweep.filter_j, sweep.filter_i, shape.width, source_.channels, to);
      to += group_lanes_ * shape.step / kLaneBytes;
    }
  }

  /// Pixels [begin, end) of a row of the sweep.
  struct Columns {
    std::int64_t begin, end;
  };

  /// Computes the pixels `columns` of rows [begin, end) of the sweep in image n, for the filters of panel i. `pixels`
  /// begins at the first source row and column that these pixels read.
  void sweep_rows(const Sweep& sweep, const FilterPanel<Lane>& filter, std::int64_t i, std::int64_t n,
                  std::int64_t begin, std::int64_t end, Columns columns, const Stored* pixels) const {
    const std::int64_t taps = static_cast<std::int64_t>(sweep.taps.size());
    const bool in_place = std::is_same_v<Out, Accumulator> && args_.bias == nullptr;
    const auto segments = static_cast<std::int64_t>(a_offsets_.size());
    const std::int64_t chunks = std::clamp<std::int64_t>(taps * group_lanes_ / kDepthBlock<Lane>, 1,
                                                         std::max<std::int64_t>(1, segments));
    const std::int64_t width = columns.end - columns.begin;
    const EvenTiles<Lane> tiles(width);
    const std::int64_t sum_pixels = chunks == 1 ? kTileRows<Lane> : (end - begin) * width;
    Accumulator* sums = in_place ? nullptr
                                 : scratch_of<Accumulator>(ScratchSlot::kAccumulators,
                                                           static_cast<std::size_t>(sum_pixels * kWide));
    const std::int64_t channel = i / panels_ * result_channels_ + i % panels_ * kWide;
    Out* result = static_cast<Out*>(args_.result) + n * result_height_ * result_width_ * args_.result_pitch + channel;
    const std::int64_t spacing = sweep.result_step[1] * args_.result_pitch;
    const Epilogue<Out> epilogue{static_cast<const Accumulator*>(args_.bias)};
    AmaxObserver amax(kDTypeOf<Out>);
    std::vector<std::int64_t> b_offsets(a_offsets_.size());
    for (std::int64_t s = 0; s < segments; ++s)
      b_offsets[static_cast<std::size_t>(s)] = s * joined_ * group_lanes_ * filter.step;

    TileUnit<Lane> unit;
    TileArgs<Lane> tile;
    tile.a_row = taps > 0 ? sweep.source_step[1] * pixel_lanes_ * kLaneBytes : 0;
    tile.a_step = kLaneBytes;
    tile.b = filter.data;
    tile.b_step = filter.step;
    tile.depth = joined_ * group_lanes_;
    tile.columns = filter.width;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      tile.accumulate = chunk > 0;
      tile.amax = in_place && chunk + 1 == chunks ? &amax : nullptr;
      for (std::int64_t row = begin; row < end; ++row) {
        const Inside taps_inside = inside(sweep, row);
        const std::int64_t first = std::max(taps_inside.begin, chunk * segments / chunks);
        tile.segments = std::max<std::int64_t>(0, std::min(taps_inside.end, (chunk + 1) * segments / chunks) - first);
        tile.a_offsets = a_offsets_.data() + first;
        tile.b_offsets = b_offsets.data() + first;
        const Stored* source_row = pixels + (row - begin) * sweep.source_step[0] * columns_ * pixel_lanes_ +
                                   i / panels_ * group_lanes_;
        Out* result_row = result +
                          ((sweep.first[0] + row * sweep.result_step[0]) * result_width_ + sweep.first[1]) *
                              args_.result_pitch +
                          columns.begin * spacing;
        for (std::int64_t column_tile = 0; column_tile < tiles.tiles; ++column_tile) {
          const std::int64_t x = tiles.begin(column_tile);
          const int count = static_cast<int>(tiles.begin(column_tile + 1) - x);
          tile.a = reinterpret_cast<const char*>(source_row) + x * tile.a_row;
          if (in_place) {
            tile.c = reinterpret_cast<Accumulator*>(result_row + x * spacing);
            tile.c_row = spacing;
          } else {
            tile.c = chunks == 1 ? sums : sums + ((row - begin) * width + x) * kWide;
            tile.c_row = kWide;
          }
          unit.run(tile, count);
          if (!in_place && chunk + 1 == chunks)
            epilogue.run({.sums = tile.c,
                          .sums_row = kWide,
                          .rows = count,
                          .columns = tile.columns,
                          .column = channel,
                          .y = result_row + x * spacing,
                          .row = spacing},
                         amax);
        }
      }
    }
  }

  Image<T> source_;
  std::int64_t images_, result_height_, result_width_, result_channels_;  // result_channels_: per group
  const ConvArgs& args_;
  std::int64_t group_lanes_ = 0, pixel_lanes_ = 0, panels_ = 0;
  std::int64_t y_low_ = 0, x_low_ = 0, y_high_ = 0, x_high_ = 0, columns_ = 0;
  std::int64_t joined_ = 1;              ///< taps in a segment of the tile
  std::vector<std::int64_t> a_offsets_;  ///< offset of each segment, in bytes
};

void product(const ConvArgs& args, bool transposed) {
  const ConvShape& s = args.shape;
  GemmArgs g;
  g.m = s.images * s.height * s.width;
  g.k = transposed ? s.filters : s.channels;
  g.n = transposed ? s.channels : s.filters;
  g.in = args.in;
  g.out = args.out;
  g.a = args.source;
  g.a_row = args.source_pitch;
  g.b = args.filter;
  g.b_row = transposed ? s.channels : 1;
  g.b_col = transposed ? 1 : s.channels;
  g.c = args.result;
  g.c_row = args.result_pitch;
  g.bias = args.bias;
  gemm_kernels().gemm(g);
}

template <class Lane, class T, class Out>
void forward_as(const ConvArgs& args) {
  const ConvShape& s = args.shape;
  const std::int64_t channels = s.channels / s.groups, filters = s.filters / s.groups;
  const Image<T> source{static_cast<const T*>(args.source), s.height, s.width, channels, s.groups, args.source_pitch};
  Convolution<Lane, T, Out>(source, s.images, s.out_height, s.out_width, filters, args).run(forward_sweep(s));
}

template <class Lane, class T, class Out>
void data_gradient_as(const ConvArgs& args) {
  const ConvShape& s = args.shape;
  const std::int64_t channels = s.channels / s.groups, filters = s.filters / s.groups;
  const Image<T> source{
      static_cast<const T*>(args.source), s.out_height, s.out_width, filters, s.groups, args.source_pitch};
  Convolution<Lane, T, Out> convolution(source, s.images, s.height, s.width, channels, args);
  for_each_phase(s, [&](const Sweep& sweep) { convolution.run(sweep); });
}

void conv(const ConvArgs& args) {
  const ConvShape& s = args.shape;
  const std::int64_t results = args.transposed ? s.height * s.width * s.channels
                                               : s.out_height * s.out_width * s.filters;
  if (s.images * results == 0) return;
  if (is_product(s)) return product(args, args.transposed);
  if (is_depthwise(s)) return depthwise_conv(args);
  dispatch_lanes(args.in, args.out, [&]<class Lane, class T, class Out>() {
    args.transposed ? data_gradient_as<Lane, T, Out>(args) : forward_as<Lane, T, Out>(args);
  });
}

}  // namespace

const ConvKernels& conv_kernels() {
  static constexpr ConvKernels kernels{&conv, &conv_weight_gradient};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
