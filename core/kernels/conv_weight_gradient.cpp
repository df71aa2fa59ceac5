#include <algorithm>
#include <vector>

#include "core/kernels/conv.h"
#include "core/kernels/gemm.h"
#include "core/kernels/image.h"
#include "core/kernels/lane_types.h"
#include "core/kernels/scratch.h"
#include "core/parallel.h"

/// gw[k, r, s, c] = sum over pixels of gy[pixel, k] x[pixel shifted by (r, s), c]: a product whose long dimension is
/// the pixels. Pixels are worked through in blocks of a few rows: x is copied with its border into panels of
/// neighboring channels, gy into panels of kTileRows filters, and every (filters, position, channels) tile adds the
/// block.
namespace binade::cpu::BINADE_ISA {

const GemmKernels& gemm_kernels();
void conv_weight_gradient(const ConvWeightArgs& args);

namespace {

constexpr std::int64_t kBlockPixels = 512;
constexpr std::int64_t kMaxChunks = 16;
constexpr std::int64_t kPartialBytes = 8 << 20;  // of all partial gradients together
constexpr std::int64_t kPanelBytes = 8 << 20;    // of all panels that tasks share

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Sums are of floats (or doubles): pixels would have to be paired for vdpbf16ps.
template <class Lane, class T>
class WeightGradient {
  using Stored = typename Lane::Stored;
  static constexpr int kWide = kTileColumns<Lane>;
  static constexpr int kNarrow = kVectorWidth<Lane>;
  static constexpr std::int64_t kLaneBytes = sizeof(Stored);

 public:
  explicit WeightGradient(const ConvWeightArgs& args) : args_(args), s_(args.shape) {
    channels_ = s_.channels / s_.groups;
    filters_ = s_.filters / s_.groups;
    panels_ = ceil_div(channels_, kWide);
    panel_width_ = channels_ <= kNarrow ? kNarrow : kWide;
    columns_ = (s_.out_width - 1) * s_.stride[1] + (s_.filter_width - 1) * s_.dilation[1] + 1;
    block_rows_ = std::clamp<std::int64_t>(kBlockPixels / s_.out_width, 1, s_.out_height);
    blocks_per_image_ = ceil_div(s_.out_height, block_rows_);
    blocks_ = s_.images * blocks_per_image_;
    source_rows_ = (block_rows_ - 1) * s_.stride[0] + (s_.filter_height - 1) * s_.dilation[0] + 1;
    x_panel_ = source_rows_ * columns_ * panel_width_;
    tiles_ = EvenTiles(filters_).tiles;
    gy_panel_ = block_rows_ * s_.out_width * kTileRows;
    x_size_ = s_.groups * panels_ * x_panel_ + 64;
    gy_size_ = s_.groups * tiles_ * gy_panel_;
  }

  void run() const {
    const std::int64_t size = s_.filters * s_.filter_height * s_.filter_width * channels_;
    Stored* gw = static_cast<Stored*>(args_.gw);
    const std::int64_t chunks = std::min({kMaxChunks, blocks_, kPartialBytes / (size * kLaneBytes + 1)});
    if (chunks >= 4)
      by_pixels(gw, size, chunks);
    else
      by_filters(gw);
  }

 private:
  /// Few weights, many pixels: each task takes a run of pixel blocks; partial gradients are added in order.
  void by_pixels(Stored* gw, std::int64_t size, std::int64_t chunks) const {
    Stored* partial = scratch_of<Stored>(ScratchSlot::kShared, static_cast<std::size_t>(size * chunks));
    parallel_blocks(chunks, [&](std::int64_t chunk) {
      Stored* x = scratch_of<Stored>(ScratchSlot::kImage, static_cast<std::size_t>(x_size_));
      Stored* gy = scratch_of<Stored>(ScratchSlot::kGradient, static_cast<std::size_t>(gy_size_));
      const std::int64_t first = chunk * blocks_ / chunks;
      for (std::int64_t block = first; block < (chunk + 1) * blocks_ / chunks; ++block) {
        fill(block, x, gy);
        for (std::int64_t i = 0; i < s_.groups * tiles_; ++i)
          add(block, i, x, gy, partial + chunk * size, block > first);
      }
    });
    parallel_for(size, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t chunk = 1; chunk < chunks; ++chunk)
        for (std::int64_t i = begin; i < end; ++i) partial[i] += partial[chunk * size + i];
      std::copy(partial + begin, partial + end, gw + begin);
    });
  }

  /// Many weights, few pixels: panels are made once for a run of blocks, then each task takes some filters.
  void by_filters(Stored* gw) const {
    const std::int64_t run = std::clamp<std::int64_t>(kPanelBytes / ((x_size_ + gy_size_) * kLaneBytes), 1, blocks_);
    Stored* x = scratch_of<Stored>(ScratchSlot::kShared, static_cast<std::size_t>(run * (x_size_ + gy_size_)));
    Stored* gy = x + run * x_size_;
    for (std::int64_t first = 0; first < blocks_; first += run) {
      const std::int64_t last = std::min(first + run, blocks_);
      parallel_blocks(last - first, [&](std::int64_t i) { fill(first + i, x + i * x_size_, gy + i * gy_size_); });
      parallel_blocks(s_.groups * tiles_, [&](std::int64_t i) {
        for (std::int64_t block = first; block < last; ++block)
          add(block, i, x + (block - first) * x_size_, gy + (block - first) * gy_size_, gw, block > 0);
      });
    }
  }

  std::int64_t first_row(std::int64_t block) const { return block % blocks_per_image_ * block_rows_; }
  std::int64_t rows(std::int64_t block) const { return std::min(block_rows_, s_.out_height - first_row(block)); }

  /// Makes the panels of one block: x (group, panel, row, column, channel), gy (group, tile, pixel, filter).
  void fill(std::int64_t block, Stored* x, Stored* gy) const {
    const std::int64_t n = block / blocks_per_image_, row = first_row(block), count = rows(block);
    const T* x_image = static_cast<const T*>(args_.x) + n * s_.height * s_.width * args_.x_pitch;
    const std::int64_t y = row * s_.stride[0] - s_.padding[0];
    for (std::int64_t g = 0; g < s_.groups; ++g)
      for (std::int64_t p = 0; p < panels_; ++p) {
        const std::int64_t width = std::min<std::int64_t>(panel_width_, channels_ - p * kWide);
        const Image<T> image{x_image + g * channels_ + p * kWide, s_.height, s_.width, width, 1, args_.x_pitch};
        copy_with_border<Lane>(image, y, (count - 1) * s_.stride[0] + (s_.filter_height - 1) * s_.dilation[0] + 1,
                               -s_.padding[1], columns_, panel_width_, x + (g * panels_ + p) * x_panel_);
      }
    const T* pixels = static_cast<const T*>(args_.gy) + (n * s_.out_height + row) * s_.out_width * args_.gy_pitch;
    const EvenTiles tiles(filters_);
    for (std::int64_t g = 0; g < s_.groups; ++g)
      for (std::int64_t i = 0; i < tiles.tiles; ++i) {
        const T* from = pixels + g * filters_ + tiles.begin(i);
        const std::int64_t width = tiles.begin(i + 1) - tiles.begin(i);
        Stored* to = gy + (g * tiles_ + i) * gy_panel_;
        for (std::int64_t pixel = 0; pixel < count * s_.out_width; ++pixel)
          to_lanes<Lane>(from + pixel * args_.gy_pitch, width, to + pixel * kTileRows);
      }
  }

  /// Adds one block to the gradients of filter tile `i` (counted through the groups).
  void add(std::int64_t block, std::int64_t i, const Stored* x, const Stored* gy, Stored* gw, bool accumulate) const {
    const std::int64_t g = i / tiles_;
    const EvenTiles tiles(filters_);
    const std::int64_t filter = tiles.begin(i % tiles_);
    const std::int64_t positions = s_.filter_height * s_.filter_width;
    const std::int64_t count = rows(block);
    std::int64_t a_offsets[kBlockPixels], b_offsets[kBlockPixels];
    for (std::int64_t row = 0; row < count; ++row) {
      a_offsets[row] = row * s_.out_width * kTileRows * kLaneBytes;
      b_offsets[row] = row * s_.stride[0] * columns_ * panel_width_ * kLaneBytes;
    }
    TileArgs<Lane> tile;
    tile.a = reinterpret_cast<const char*>(gy + i * gy_panel_);
    tile.a_row = kLaneBytes;
    tile.a_step = kTileRows * kLaneBytes;
    tile.b_step = s_.stride[1] * panel_width_ * kLaneBytes;
    tile.segments = count;
    tile.depth = s_.out_width;
    tile.a_offsets = a_offsets;
    tile.b_offsets = b_offsets;
    tile.c_row = positions * channels_;
    tile.accumulate = accumulate;
    for (std::int64_t p = 0; p < panels_; ++p) {
      tile.columns = static_cast<int>(std::min<std::int64_t>(kWide, channels_ - p * kWide));
      for (std::int64_t r = 0; r < s_.filter_height; ++r)
        for (std::int64_t c = 0; c < s_.filter_width; ++c) {
          const std::int64_t shift = r * s_.dilation[0] * columns_ + c * s_.dilation[1];
          tile.b = reinterpret_cast<const char*>(x + (g * panels_ + p) * x_panel_ + shift * panel_width_);
          tile.c = gw + ((g * filters_ + filter) * positions + r * s_.filter_width + c) * channels_ + p * kWide;
          run_tile(tile, static_cast<int>(tiles.begin(i % tiles_ + 1) - filter));
        }
    }
  }

  const ConvWeightArgs& args_;
  const ConvShape& s_;
  std::int64_t channels_, filters_;  // of one group
  std::int64_t panels_, panel_width_, columns_, block_rows_, blocks_per_image_, blocks_, source_rows_;
  std::int64_t x_panel_, tiles_, gy_panel_, x_size_, gy_size_;
};

/// 1x1 filters on every pixel: gw = gy^T x.
void product(const ConvWeightArgs& args) {
  const ConvShape& s = args.shape;
  GemmArgs g;
  g.m = s.filters;
  g.n = s.channels;
  g.k = s.images * s.height * s.width;
  g.in = args.in;
  g.out = accumulate_dtype(args.in);
  g.a = args.gy;
  g.a_row = 1;
  g.a_col = args.gy_pitch;
  g.b = args.x;
  g.b_row = args.x_pitch;
  g.c = args.gw;
  g.c_row = s.channels;
  gemm_kernels().gemm(g);
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
  if (s.filter_height == 1 && s.filter_width == 1 && s.groups == 1 && s.stride[0] == 1 && s.stride[1] == 1 &&
      s.padding[0] == 0 && s.padding[1] == 0)
    return product(args);
  switch (args.in) {
    case DType::f64: return WeightGradient<DoubleLane, double>(args).run();
    case DType::f16: return WeightGradient<FloatLane, float16>(args).run();
    case DType::bf16: return WeightGradient<FloatLane, bfloat16>(args).run();
    default: return WeightGradient<FloatLane, float>(args).run();
  }
}

}  // namespace binade::cpu::BINADE_ISA
