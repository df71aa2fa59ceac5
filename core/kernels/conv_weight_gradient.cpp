#include <algorithm>
#include <vector>

#include "binade/core/kernels/conv_depthwise.h"
#include "binade/core/kernels/gemm.h"
#include "binade/core/kernels/gradient_panels.h"
#include "binade/core/kernels/lane_types.h"
#include "binade/core/kernels/scratch.h"
#include "binade/core/parallel.h"

/// The weight gradient gw[k, r, s, c] is the sum over pixels of gy[pixel, k] x[pixel shifted by (r, s), c], a matrix
/// product whose long inner dimension is the pixels. Blocks of a few rows of pixels are copied into panels of
/// neighboring channels (x) and neighboring filters (gy). Then the tile of gw for each group of filters, filter
/// position and group of channels adds the block's products.
namespace binade::cpu::BINADE_ISA {

const GemmKernels& gemm_kernels();
void conv_weight_gradient(const ConvWeightArgs& args);

namespace {

constexpr std::int64_t kBlockPixels = 512;
constexpr std::int64_t kMaxChunks = 16;          ///< largest number of partial gradients
constexpr std::int64_t kPartialBytes = 8 << 20;  // limit for all partial gradients together
constexpr std::int64_t kPanelBytes = 8 << 20;    // limit for all panels that tasks share

/// Computes the weight gradient. `Panels` copies a block of pixels into the order in which the register tile reads it
/// (core/kernels/gradient_panels.h).
template <class Panels>
class WeightGradient {
  using Lane = typename Panels::Lane;
  using Stored = typename Lane::Stored;
  using Sum = typename Lane::Accumulator;

 public:
  explicit WeightGradient(const ConvWeightArgs& args)
      : args_(args),
        s_(args.shape),
        panels_(args, std::clamp<std::int64_t>(kBlockPixels / s_.out_width, 1, s_.out_height)),
        filters_(s_.filters / s_.groups),
        tiles_(EvenTiles<Lane>(filters_).tiles),
        blocks_per_image_(ceil_div(s_.out_height, panels_.block_rows)),
        blocks_(s_.images * blocks_per_image_) {}

  void run() const {
    const std::int64_t size = s_.filters * s_.filter_height * s_.filter_width * panels_.channels;
    Sum* gw = static_cast<Sum*>(args_.gw);
    const std::int64_t chunks = std::min({kMaxChunks, blocks_, kPartialBytes / (size * kSumBytes + 1)});
    if (chunks >= 4)
      by_pixels(gw, size, ceil_div(blocks_, ceil_div(blocks_, chunks)));  // equally many blocks each
    else
      by_filters(gw);
  }

 private:
  static constexpr std::int64_t kSumBytes = sizeof(Sum), kStoredBytes = sizeof(Stored);

  /// The order of work for few weights and many pixels: each task sums a range of pixel blocks, and the partial
  /// gradients are added in order.
  void by_pixels(Sum* gw, std::int64_t size, std::int64_t chunks) const {
    Sum* partial = scratch_of<Sum>(ScratchSlot::kShared, static_cast<std::size_t>(size * chunks));
    parallel_blocks(chunks, [&](std::int64_t chunk) {
      Stored* x = scratch_of<Stored>(ScratchSlot::kImage, static_cast<std::size_t>(panels_.x_size));
      Stored* gy = scratch_of<Stored>(ScratchSlot::kGradient, static_cast<std::size_t>(panels_.gy_size));
      TileUnit<Lane> unit;
      const std::int64_t first = chunk * blocks_ / chunks;
      for (std::int64_t block = first; block < (chunk + 1) * blocks_ / chunks; ++block) {
        fill(block, x, gy);
        const Walk walk(panels_, rows(block), 1);
        for (std::int64_t i = 0; i < s_.groups * tiles_; ++i)
          add(walk, i, x, gy, partial + chunk * size, block > first, unit);
      }
    });
    parallel_for(size, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = 1; chunk < chunks; ++chunk)
        for (std::int64_t i = begin; i < end; ++i) partial[i] += partial[chunk * size + i];
      std::copy(partial + begin, partial + end, gw + begin);
    });
  }

  /// The order of work for many weights and few pixels: a range of blocks is packed by all threads, then each task
  /// computes the gradients of some filters over that range.
  void by_filters(Sum* gw) const {
    const std::int64_t block_size = panels_.x_size + panels_.gy_size;
    const std::int64_t run = std::clamp<std::int64_t>(
        kPanelBytes / (block_size * static_cast<std::int64_t>(sizeof(Stored))), 1, blocks_);
    Stored* x = scratch_of<Stored>(ScratchSlot::kShared, static_cast<std::size_t>(run * block_size));
    Stored* gy = x + run * panels_.x_size;
    for (std::int64_t first = 0; first < blocks_; first += run) {
      const std::int64_t last = std::min(first + run, blocks_);
      parallel_blocks(last - first,
                      [&](std::int64_t i) { fill(first + i, x + i * panels_.x_size, gy + i * panels_.gy_size); });
      // Blocks with equally many rows are summed in one pass, with their sums in registers.
      const std::int64_t blocks_at_once = s_.out_height % panels_.block_rows == 0 ? last - first : 1;
      parallel_blocks(s_.groups * tiles_, [&](std::int64_t i) {
        TileUnit<Lane> unit;
        for (std::int64_t block = first; block < last; block += blocks_at_once)
          add(Walk(panels_, rows(block), blocks_at_once), i, x + (block - first) * panels_.x_size,
              gy + (block - first) * panels_.gy_size, gw, block > 0, unit);
      });
    }
  }

  std::int64_t first_row(std::int64_t block) const { return block % blocks_per_image_ * panels_.block_rows; }
  std::int64_t rows(std::int64_t block) const { return std::min(panels_.block_rows, s_.out_height - first_row(block)); }

  void fill(std::int64_t block, Stored* x, Stored* gy) const {
    panels_.fill(block / blocks_per_image_, first_row(block), rows(block), x, gy);
  }

  /// The offsets by which a tile reads `blocks` contiguous blocks of `rows` rows.
  struct Walk {
    Walk(const Panels& panels, std::int64_t rows, std::int64_t blocks) {
      panels.segment(rows, tile, a_offsets, b_offsets);
      const std::int64_t segments = tile.segments;
      for (std::int64_t i = segments; i < blocks * segments; ++i) {
        a_offsets.push_back(a_offsets[i - segments] + panels.gy_size * kStoredBytes);
        b_offsets.push_back(b_offsets[i - segments] + panels.x_size * kStoredBytes);
      }
      tile.segments = blocks * segments;
    }
    TileArgs<Lane> tile;  ///< a, b and c are still null; add() sets them
    std::vector<std::int64_t> a_offsets, b_offsets;
  };

  /// Adds the products of the blocks of `walk` to the gradients of filter tile `i` (counted across groups), or stores
  /// them if not `accumulate`.
  void add(const Walk& walk, std::int64_t i, const Stored* x, const Stored* gy, Sum* gw, bool accumulate,
           TileUnit<Lane>& unit) const {
    const std::int64_t g = i / tiles_, channels = panels_.channels;
    const EvenTiles<Lane> tiles(filters_);
    const std::int64_t filter = tiles.begin(i % tiles_);
    const std::int64_t positions = s_.filter_height * s_.filter_width;
    TileArgs<Lane> tile = walk.tile;
    tile.a_offsets = walk.a_offsets.data();
    tile.b_offsets = walk.b_offsets.data();
    tile.a = panels_.filters_of(gy, i);
    tile.c_row = positions * channels;
    tile.accumulate = accumulate;
    for (std::int64_t p = 0; p < panels_.panels; ++p) {
      tile.columns = static_cast<int>(std::min<std::int64_t>(kTileColumns<Lane>, channels - p * kTileColumns<Lane>));
      for (std::int64_t c = 0; c < s_.filter_width; ++c)
        for (std::int64_t r = 0; r < s_.filter_height; ++r) {
          tile.b = panels_.channels_of(x, g, p, r, c);
          tile.c = gw + ((g * filters_ + filter) * positions + r * s_.filter_width + c) * channels +
                   p * kTileColumns<Lane>;
          unit.run(tile, static_cast<int>(tiles.begin(i % tiles_ + 1) - filter));
        }
    }
  }

  const ConvWeightArgs& args_;
  const ConvShape& s_;
  Panels panels_;
  std::int64_t filters_, tiles_;  // per group
  std::int64_t blocks_per_image_, blocks_;
};

/// The input x as a matrix. Value j of pixel p is at data[p * pixel_step + j * value_step].
struct PixelMatrix {
  const void* data;
  std::int64_t pixels, values;
  std::int64_t pixel_step, value_step;
};

/// Computes gw = gy^T x, or gw += gy^T x if `accumulate`.
void product(const ConvWeightArgs& args, const void* gy, const PixelMatrix& x, bool accumulate) {
  GemmArgs g;
  g.m = args.shape.filters;
  g.n = x.values;
  g.k = x.pixels;
  g.in = args.in;
  g.out = accumulate_dtype(args.in);
  g.a = gy;
  g.a_row = 1;
  g.a_col = args.gy_pitch;
  g.b = x.data;
  g.b_row = x.pixel_step;
  g.b_col = x.value_step;
  g.c = args.gw;
  g.c_row = x.values;
  g.accumulate = accumulate;
  gemm_kernels().gemm(g);
}

/// Returns true if one tile can hold all values under a filter, while the channels of one filter position would leave
/// most of the tile empty.
bool is_neighborhood(const ConvShape& s) {
  return s.groups == 1 && s.channels <= 8 && s.filter_height * s.filter_width * s.channels <= 32;
}

/// Copies the values of x that are multiplied by filter element (r, c, channel) for the pixels of result row `row`
/// (counted across images).
template <class T>
void gather_row(const ConvWeightArgs& args, std::int64_t row, std::int64_t r, std::int64_t c, std::int64_t channel,
                T* to) {
  const ConvShape& s = args.shape;
  const std::int64_t y = row % s.out_height * s.stride[0] - s.padding[0] + r * s.dilation[0];
  if (y < 0 || y >= s.height) {
    std::fill(to, to + s.out_width, T{});
    return;
  }
  const std::int64_t first = c * s.dilation[1] - s.padding[1], step = s.stride[1];
  const std::int64_t begin = std::clamp<std::int64_t>(ceil_div(std::max<std::int64_t>(-first, 0), step), 0,
                                                      s.out_width);
  const std::int64_t end = std::clamp<std::int64_t>(ceil_div(std::max<std::int64_t>(s.width - first, 0), step), begin,
                                                    s.out_width);
  std::fill(to, to + begin, T{});
  if (begin < end) {
    const std::int64_t pixel = (row / s.out_height * s.height + y) * s.width + first + begin * step;
    const T* from = static_cast<const T*>(args.x) + pixel * args.x_pitch + channel;
    if (step * args.x_pitch == 1)
      std::copy(from, from + (end - begin), to + begin);
    else
      for (std::int64_t q = begin; q < end; ++q) to[q] = from[(q - begin) * step * args.x_pitch];
  }
  std::fill(to + end, to + s.out_width, T{});
}

/// Computes gw as a plain matrix product, as for a 1x1 filter. In place of the channels of x, it uses one row for each
/// filter element (r, c, channel): the values that the element multiplies. Processes some rows of the result at a time.
template <class T>
void by_neighborhoods(const ConvWeightArgs& args) {
  constexpr std::int64_t kValues = 1 << 20;
  const ConvShape& s = args.shape;
  const std::int64_t width = s.filter_height * s.filter_width * s.channels, rows = s.images * s.out_height;
  const std::int64_t step = std::clamp<std::int64_t>(kValues / (s.out_width * width), 1, rows);
  T* x = scratch_of<T>(ScratchSlot::kImage, static_cast<std::size_t>(step * s.out_width * width));
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first), pixels = count * s.out_width;
    parallel_for(count * width, std::max<std::int64_t>(1, (1 << 14) / s.out_width),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t value = i / count, row = i % count, position = value / s.channels;
                     gather_row(args, first + row, position / s.filter_width, position % s.filter_width,
                                value % s.channels, x + value * pixels + row * s.out_width);
                   }
                 });
    const T* gy = static_cast<const T*>(args.gy) + first * s.out_width * args.gy_pitch;
    product(args, gy, {x, pixels, width, 1, pixels}, first > 0);
  }
}

}  // namespace

void conv_weight_gradient(const ConvWeightArgs& args) {
  const ConvShape& s = args.shape;
  const std::int64_t size = s.filters * s.filter_height * s.filter_width * (s.channels / s.groups);
  if (size == 0) return;
  if (s.images * s.out_height * s.out_width == 0) {
    std::memset(args.gw, 0, static_cast<std::size_t>(size) * (args.in == DType::f64 ? sizeof(double) : sizeof(float)));
    return;
  }
  if (is_product(s))
    return product(args, args.gy, {args.x, s.images * s.height * s.width, s.channels, args.x_pitch, 1}, false);
  if (is_depthwise(s)) return depthwise_weight_gradient(args);
  dispatch_lane(args.in, [&]<class Lane, class T>() {
    if (is_neighborhood(s))
      by_neighborhoods<T>(args);
    else
      WeightGradient<GradientPanelsOf<Lane, T>>(args).run();
  });
}

}  // namespace binade::cpu::BINADE_ISA
