#include "binade/core/kernels/conv_depthwise.h"

#include <algorithm>
#include <vector>

#include "binade/core/kernels/conv_sweep.h"
#include "binade/core/kernels/lane_types.h"
#include "binade/core/kernels/lanes.h"
#include "binade/core/kernels/scratch.h"
#include "binade/core/parallel.h"

namespace binade::cpu::BINADE_ISA {
namespace {

constexpr std::int64_t kGrain = 1 << 15;       ///< results that one task computes
constexpr std::int64_t kBlockBytes = 8 << 10;  ///< size of a block's pixels of gy, in type C, so that they stay in L1
constexpr std::int64_t kMaxChunks = 16;        ///< largest number of partial gradients
constexpr int kPixels = 4;                     ///< pixels whose sums are in registers together
constexpr int kTaps = 4;                       ///< filter positions whose gradients are in registers together
constexpr int kVectors = 2;                    ///< vectors of channels whose sums are in registers together

/// Returns the smallest q in [0, end) with q step + offset >= least; `end` if there is none.
std::int64_t first_at_least(std::int64_t least, std::int64_t offset, std::int64_t step, std::int64_t end) {
  return std::clamp<std::int64_t>(ceil_div(std::max<std::int64_t>(least - offset, 0), step), 0, end);
}

/// Computes one sweep with filters (position, channel).
template <class T, class Out>
class DepthwiseSweep {
  using C = Compute<T>;

 public:
  DepthwiseSweep(const ConvArgs& args, const Sweep& sweep, const C* filter)
      : args_(args),
        sweep_(sweep),
        filter_(filter),
        channels_(args.shape.groups),
        height_(args.transposed ? args.shape.out_height : args.shape.height),
        width_(args.transposed ? args.shape.out_width : args.shape.width),
        result_height_(args.transposed ? args.shape.height : args.shape.out_height),
        result_width_(args.transposed ? args.shape.width : args.shape.out_width) {}

  void run() const {
    if (sweep_.height <= 0 || sweep_.width <= 0) return;
    const std::int64_t piece = std::clamp<std::int64_t>(kGrain / channels_, 1, sweep_.width);
    const std::int64_t pieces = ceil_div(sweep_.width, piece), rows = args_.shape.images * sweep_.height;
    parallel_for(rows * pieces, std::max<std::int64_t>(1, kGrain / (piece * channels_)),
                 [&](std::int64_t begin, std::int64_t end) {
                   AmaxObserver amax(kDTypeOf<Out>);
                   std::vector<Term> terms;
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t row = i / pieces, first = i % pieces * piece;
                     run_row(row / sweep_.height, row % sweep_.height, first, std::min(first + piece, sweep_.width),
                             terms, amax);
                   }
                 });
  }

 private:
  /// A tap whose source row is inside the image.
  struct Term {
    std::int64_t column = 0, offset = 0;  ///< column and offset of the source pixel for result pixel 0
    const C* w = nullptr;                 ///< the weights of all channels
  };

  /// The source image and the result of one row, and the taps that the row reads.
  struct Row {
    const T* image;
    Out* result;
    std::vector<Term>& terms;
  };

  /// Computes pixels [begin, end) of a row.
  void run_row(std::int64_t n, std::int64_t row, std::int64_t begin, std::int64_t end, std::vector<Term>& terms,
               AmaxObserver& amax) const {
    terms.clear();
    std::int64_t low = 0, high = 0;  // first and last column of the taps
    for (const Tap& tap : sweep_.taps) {
      const std::int64_t y = row * sweep_.source_step[0] + tap.y;
      if (y < 0 || y >= height_) continue;
      low = terms.empty() ? tap.x : std::min(low, tap.x);
      high = terms.empty() ? tap.x : std::max(high, tap.x);
      terms.push_back({tap.x, (y * width_ + tap.x) * args_.source_pitch, filter_ + tap.index * channels_});
    }
    const std::int64_t pixel = (n * result_height_ + sweep_.first[0] + row * sweep_.result_step[0]) * result_width_;
    const Row to{static_cast<const T*>(args_.source) + n * height_ * width_ * args_.source_pitch,
                 static_cast<Out*>(args_.result) + (pixel + sweep_.first[1]) * args_.result_pitch, terms};
    // Pixels [inside, outside) read no column outside of the image.
    const std::int64_t step = sweep_.source_step[1];
    const std::int64_t inside = std::clamp(first_at_least(0, low, step, end), begin, end);
    const std::int64_t outside = std::clamp(first_at_least(width_, high, step, end), inside, end);
    std::int64_t q = begin;
    for (; q < inside; ++q) pixels<1, true>(to, q, amax);
    for (; q + kPixels <= outside; q += kPixels) pixels<kPixels, false>(to, q, amax);
    for (; q < outside; ++q) pixels<1, false>(to, q, amax);
    for (; q < end; ++q) pixels<1, true>(to, q, amax);
  }

  /// Computes `count` neighboring pixels from q on. At the border, taps outside of the image are left out.
  template <int count, bool at_border>
  [[gnu::always_inline]] void pixels(const Row& row, std::int64_t q, AmaxObserver& amax) const {
    const std::int64_t column = q * sweep_.source_step[1], pitch = args_.source_pitch;
    const std::int64_t across = sweep_.source_step[1] * pitch, spacing = sweep_.result_step[1] * args_.result_pitch;
    const C* bias = static_cast<const C*>(args_.bias);
    LoopAmaxObserver stored(amax);
    each_sweep<T, kVectors>(
        channels_, [&](std::int64_t c, auto vectors, auto part) __attribute__((always_inline)) {
          Wide<T> sum[count][vectors] = {};
          for (const Term& term : row.terms) {
            if (at_border && (column + term.column < 0 || column + term.column >= width_)) continue;
            const T* x = row.image + term.offset + column * pitch + c;
            for (int v = 0; v < vectors; ++v) {
              const Wide<T> w = get(term.w + c + v * kWideLanes<T>, part);
              for (int i = 0; i < count; ++i)
                sum[i][v] = multiply_add(get(x + i * across + v * kWideLanes<T>, part), w, sum[i][v]);
            }
          }
          if (bias != nullptr)
            for (int v = 0; v < vectors; ++v)
              for (int i = 0; i < count; ++i) sum[i][v] += get(bias + c + v * kWideLanes<T>, part);
          for (int i = 0; i < count; ++i) put_sweep(row.result + (q + i) * spacing + c, sum[i], part, stored);
        });
  }

  const ConvArgs& args_;
  const Sweep& sweep_;
  const C* filter_;
  std::int64_t channels_, height_, width_, result_height_, result_width_;
};

template <class T, class Out>
void depthwise_as(const ConvArgs& args) {
  using C = Compute<T>;
  const ConvShape& s = args.shape;
  const std::int64_t positions = s.filter_height * s.filter_width;
  C* filter = scratch_of<C>(ScratchSlot::kShared, static_cast<std::size_t>(positions * s.groups));
  for (std::int64_t c = 0; c < s.groups; ++c)
    for (std::int64_t p = 0; p < positions; ++p)
      filter[p * s.groups + c] = load(static_cast<const T*>(args.filter)[c * positions + p]);
  const auto run = [&](const Sweep& sweep) { DepthwiseSweep<T, Out>(args, sweep, filter).run(); };
  args.transposed ? for_each_phase(s, run) : run(forward_sweep(s));
}

/// Sums gw[position, channel] over blocks of pixels. A block is a part of one row of the result. First the pixels of
/// each block are added one after the other, starting from 0, then the blocks of each chunk, then the chunks.
template <class T>
class DepthwiseGradient {
  using C = Compute<T>;

 public:
  explicit DepthwiseGradient(const ConvWeightArgs& args)
      : args_(args),
        s_(args.shape),
        channels_(s_.groups),
        positions_(s_.filter_height * s_.filter_width),
        width_(std::clamp<std::int64_t>(kBlockBytes / (channels_ * static_cast<std::int64_t>(sizeof(C))), 8, 256)),
        cuts_(ceil_div(s_.out_width, width_)),
        blocks_(s_.images * s_.out_height * cuts_) {}

  void run() const {
    const std::int64_t size = positions_ * channels_, chunks = std::min(kMaxChunks, blocks_);
    C* partial = scratch_of<C>(ScratchSlot::kShared, static_cast<std::size_t>(size * chunks));
    parallel_blocks(chunks, [&](std::int64_t chunk) {
      C* sums = partial + chunk * size;
      std::fill_n(sums, size, C(0));
      for (std::int64_t b = chunk * blocks_ / chunks; b < (chunk + 1) * blocks_ / chunks; ++b) add_block(b, sums);
    });
    C* gw = static_cast<C*>(args_.gw);
    for (std::int64_t c = 0; c < channels_; ++c)
      for (std::int64_t p = 0; p < positions_; ++p) {
        C sum = partial[p * channels_ + c];
        for (std::int64_t chunk = 1; chunk < chunks; ++chunk) sum += partial[chunk * size + p * channels_ + c];
        gw[c * positions_ + p] = sum;
      }
  }

 private:
  void add_block(std::int64_t block, C* sums) const {
    const std::int64_t row = block / cuts_, n = row / s_.out_height, p = row % s_.out_height;
    const std::int64_t begin = block % cuts_ * width_, end = std::min(s_.out_width, begin + width_);
    const T* gy = static_cast<const T*>(args_.gy) + row * s_.out_width * args_.gy_pitch;
    for (std::int64_t r = 0; r < s_.filter_height; ++r) {
      const std::int64_t y = p * s_.stride[0] - s_.padding[0] + r * s_.dilation[0];
      if (y < 0 || y >= s_.height) continue;
      const T* x = static_cast<const T*>(args_.x) + (n * s_.height + y) * s_.width * args_.x_pitch;
      C* to = sums + r * s_.filter_width * channels_;
      for (std::int64_t c = 0; c < s_.filter_width; c += kTaps) {
        const auto taps = static_cast<int>(std::min<std::int64_t>(kTaps, s_.filter_width - c));
        // Pixels [inside, outside) of the result read no column outside of the image, for any of these taps.
        const std::int64_t inside = std::clamp(first_inside(c), begin, end);
        const std::int64_t outside = std::clamp(first_outside(c + taps - 1), inside, end);
        for (int i = 0; i < taps; ++i) {
          const std::int64_t low = first_inside(c + i), high = first_outside(c + i);
          add<1>(x, gy, c + i, std::clamp(low, begin, inside), std::clamp(high, begin, inside), to);
          add<1>(x, gy, c + i, std::clamp(low, outside, end), std::clamp(high, outside, end), to);
        }
        switch (taps) {
          case 1: add<1>(x, gy, c, inside, outside, to); break;
          case 2: add<2>(x, gy, c, inside, outside, to); break;
          case 3: add<3>(x, gy, c, inside, outside, to); break;
          default: add<kTaps>(x, gy, c, inside, outside, to);
        }
      }
    }
  }

  std::int64_t column_of(std::int64_t c) const { return c * s_.dilation[1] - s_.padding[1]; }
  std::int64_t first_inside(std::int64_t c) const {
    return first_at_least(0, column_of(c), s_.stride[1], s_.out_width);
  }
  std::int64_t first_outside(std::int64_t c) const {
    return first_at_least(s_.width, column_of(c), s_.stride[1], s_.out_width);
  }

  /// Adds to `sums`, for each filter column in [c, c + taps), the sum of x gy over pixels [begin, end) of a row of gy.
  template <int taps>
  void add(const T* x, const T* gy, std::int64_t c, std::int64_t begin, std::int64_t end, C* sums) const {
    if (begin >= end) return;
    const std::int64_t across = s_.stride[1] * args_.x_pitch, down = s_.dilation[1] * args_.x_pitch;
    const T* first = x + (begin * s_.stride[1] + column_of(c)) * args_.x_pitch;
    each_sweep<T, kVectors>(
        channels_, [&](std::int64_t channel, auto vectors, auto part) __attribute__((always_inline)) {
          Wide<T> sum[taps][vectors] = {};
          const T* from = first + channel;
          const T* g = gy + begin * args_.gy_pitch + channel;
          for (std::int64_t q = begin; q < end; ++q, from += across, g += args_.gy_pitch)
            for (int v = 0; v < vectors; ++v) {
              const Wide<T> factor = get(g + v * kWideLanes<T>, part);
              for (int i = 0; i < taps; ++i)
                sum[i][v] = multiply_add(get(from + i * down + v * kWideLanes<T>, part), factor, sum[i][v]);
            }
          for (int i = 0; i < taps; ++i)
            for (int v = 0; v < vectors; ++v) {
              C* to = sums + (c + i) * channels_ + channel + v * kWideLanes<T>;
              put(to, get(to, part) + sum[i][v], part);
            }
        });
  }

  const ConvWeightArgs& args_;
  const ConvShape& s_;
  std::int64_t channels_, positions_;
  std::int64_t width_, cuts_, blocks_;  ///< pixels of a block, blocks of a row, and all blocks
};

}  // namespace

void depthwise_conv(const ConvArgs& args) {
  dispatch_lanes(args.in, args.out, [&]<class Lane, class T, class Out>() { depthwise_as<T, Out>(args); });
}

void depthwise_weight_gradient(const ConvWeightArgs& args) {
  dispatch_lane(args.in, [&]<class Lane, class T>() { DepthwiseGradient<T>(args).run(); });
}

}  // namespace binade::cpu::BINADE_ISA
