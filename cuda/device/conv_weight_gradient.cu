#include "binade/cuda/device/conv.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/libraries.cuh"

/// gw[f, r, s, c] = sum over pixels of gy[pixel, f] x[pixel shifted by (r, s), c]: a product whose rows are filters,
/// whose columns are (r, s, c), and whose k runs over the pixels. The pixels are cut into runs by size alone; different
/// blocks sum different runs, and the sums of the runs are added in order.
namespace binade::cuda {
namespace {

using namespace conv;

constexpr int kTile = 64;
constexpr int kEach = kTile / 16;                           // rows and columns of one thread
constexpr std::int64_t kBlocks = 2048;                      // wanted number of blocks
constexpr std::int64_t kFewestPixels = 512;                 // fewest pixels of a run
constexpr std::int64_t kMostSums = std::int64_t{32} << 20;  // most sums of all runs together, in elements

struct Plan {
  ConvWeightArgs args = {};
  std::int64_t channels = 0, filters = 0;             // per group
  std::int64_t columns = 0;                           // positions * channels
  std::int64_t pixels = 0, runs = 0, run_pixels = 0;  ///< run_pixels: pixels of a run
  std::int64_t row_tiles = 0, column_tiles = 0, tiles = 0;
};

Plan plan_of(const ConvWeightArgs& args) {
  const ConvShape& s = args.shape;
  Plan p{.args = args, .channels = s.channels / s.groups, .filters = s.filters / s.groups};
  p.columns = s.filter_height * s.filter_width * p.channels;
  p.pixels = s.images * s.out_height * s.out_width;
  p.row_tiles = ceil_div(p.filters, kTile);
  p.column_tiles = ceil_div(p.columns, kTile);
  p.tiles = s.groups * p.row_tiles * p.column_tiles;
  const std::int64_t size = s.filters * p.columns;
  std::int64_t runs = ceil_div(kBlocks, p.tiles);
  if (runs > ceil_div(p.pixels, kFewestPixels)) runs = ceil_div(p.pixels, kFewestPixels);
  if (runs > kMostSums / size) runs = kMostSums / size;
  if (runs < 1) runs = 1;
  p.run_pixels = ceil_div(p.pixels, runs);
  p.runs = ceil_div(p.pixels, p.run_pixels);
  return p;
}

/// The addresses that the 16 pixels of a chunk read, in x and in gy.
struct Chunk {
  std::int64_t y[kDepth], x[kDepth];  // pixel of x that filter position (0, 0) reads
  std::int64_t source[kDepth];        // offset of that pixel in x, in elements
  std::int64_t gradient[kDepth];      // offset of the pixel in gy, in elements; -1 past the end of the run
};

/// The coordinates of one of the 16 pixels, which advance through a run from chunk to chunk.
struct Step {
  std::int64_t pixel, image, row, column;

  __device__ Step(const ConvShape& s, std::int64_t pixel) : pixel(pixel) {
    const std::int64_t line = pixel / s.out_width;
    column = pixel - line * s.out_width;
    image = line / s.out_height;
    row = line - image * s.out_height;
  }
  __device__ void forward(const ConvShape& s) {
    pixel += kDepth;
    for (column += kDepth; column >= s.out_width; column -= s.out_width)
      if (++row == s.out_height) row = 0, ++image;
  }
  __device__ void put(Chunk& chunk, int i, const ConvWeightArgs& a, std::int64_t end) const {
    const ConvShape& s = a.shape;
    const std::int64_t y = row * s.stride[0] - s.padding[0], x = column * s.stride[1] - s.padding[1];
    chunk.y[i] = pixel < end ? y : kNowhere;
    chunk.x[i] = x;
    chunk.source[i] = ((image * s.height + y) * s.width + x) * a.x_pitch;
    chunk.gradient[i] = pixel < end ? pixel * a.gy_pitch : -1;
  }
};

template <class T, class C, int kPer>
__global__ void __launch_bounds__(kThreads) weight_tiles(Plan p, C* to) {
  constexpr int kAcross = kTile / kPer, kLoads = kTile * kDepth / kPer / kThreads, kPad = 4;
  alignas(16) __shared__ C a[2][kDepth][kTile + kPad];
  alignas(16) __shared__ C b[2][kDepth][kTile + kPad];
  __shared__ Chunk chunks[2];
  const ConvShape& s = p.args.shape;
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / 16 * kEach, column = thread % 16 * kEach;
  const int across = thread % kAcross * kPer,
            along = thread / kAcross;  // the elements of a chunk that this thread reads

  for (std::int64_t tile = blockIdx.x; tile < p.tiles * p.runs; tile += gridDim.x) {
    std::int64_t rest = tile / p.column_tiles;
    const std::int64_t first_column = (tile - rest * p.column_tiles) * kTile;
    const std::int64_t first_row = rest % p.row_tiles * kTile;
    rest /= p.row_tiles;
    const std::int64_t group = rest % s.groups, run = rest / s.groups;
    const std::int64_t begin = run * p.run_pixels;
    const std::int64_t end = begin + p.run_pixels < p.pixels ? begin + p.run_pixels : p.pixels;
    const std::int64_t count = (end - begin + kDepth - 1) / kDepth;
    // The columns that a thread reads belong to the same filter position and to neighboring channels.
    const std::int64_t k = first_column + across, position = k / p.channels;
    const bool has_column = k < p.columns, has_row = first_row + across < p.filters;
    const std::int64_t tap_y = position / s.filter_width * s.dilation[0],
                       tap_x = position % s.filter_width * s.dilation[1];
    const T* const x = static_cast<const T*>(p.args.x) + group * p.channels + k % p.channels;
    const T* const gy = static_cast<const T*>(p.args.gy) + group * p.filters + first_row + across;
    const std::int64_t tap = (tap_y * s.width + tap_x) * p.args.x_pitch;

    __syncthreads();  // the previous tile is done
    Step step(s, begin + thread);
    if (thread < kDepth) {
      step.put(chunks[0], thread, p.args, end);
      step.forward(s);
      step.put(chunks[1], thread, p.args, end);
    }
    __syncthreads();

    C next_a[kLoads][kPer], next_b[kLoads][kPer];
    const auto fetch = [&](const Chunk& chunk) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = along + i * (kThreads / kAcross);
        const std::int64_t from = chunk.gradient[at];
        const bool has_gradient = has_row && from >= 0;
        load_run<kPer>(gy + (has_gradient ? from : 0), has_gradient, next_a[i]);
        const bool in_range = has_column && inside(chunk.y[at] + tap_y, s.height) &&
                              inside(chunk.x[at] + tap_x, s.width);
        load_run<kPer>(x + (in_range ? chunk.source[at] + tap : 0), in_range, next_b[i]);
      }
    };
    const auto put = [&](int half) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int e = 0; e < kPer; ++e) {
          a[half][along + i * (kThreads / kAcross)][across + e] = next_a[i][e];
          b[half][along + i * (kThreads / kAcross)][across + e] = next_b[i][e];
        }
      }
    };

    C sums[kEach][kEach] = {};
    fetch(chunks[0]);
    put(0);
    __syncthreads();
    for (std::int64_t c = 0; c < count; ++c) {
      const int half = static_cast<int>(c % 2);
      if (c + 1 < count) fetch(chunks[1 - half]);
      if (thread < kDepth) {
        step.forward(s);
        step.put(chunks[half], thread, p.args, end);
      }
      multiply<kEach, kEach>(a[half], b[half], row, column, sums);
      if (c + 1 < count) put(1 - half);
      __syncthreads();
    }

    C* const rows = to + (run * s.filters + group * p.filters) * p.columns;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        if (first_row + row + i < p.filters && first_column + column + j < p.columns)
          rows[(first_row + row + i) * p.columns + first_column + column + j] = sums[i][j];
    }
  }
}

template <class C>
__global__ void __launch_bounds__(kThreads) add_runs(const C* sums, std::int64_t runs, std::int64_t size, C* gw) {
  each_index(size, [&](std::int64_t i) {
    C sum = sums[i];
    for (std::int64_t run = 1; run < runs; ++run) sum += sums[run * size + i];
    gw[i] = sum;
  });
}

template <class T, class C, int kPer>
void start(const Plan& p) {
  C* const gw = static_cast<C*>(p.args.gw);
  const unsigned blocks = blocks_for(p.tiles * p.runs);
  if (p.runs == 1) return launch(weight_tiles<T, C, kPer>, blocks, kThreads, 0, p, gw);
  const std::int64_t size = p.args.shape.filters * p.columns;
  const Buffer<C> sums(size * p.runs);
  launch(weight_tiles<T, C, kPer>, blocks, kThreads, 0, p, sums.data());
  launch(add_runs<C>, grid_for(ceil_div(size, kThreads)), kThreads, 0, static_cast<const C*>(sums.data()), p.runs, size,
         gw);
}

/// Eight 16-bit values, which a library reads in one access.
struct alignas(16) EightHalves {
  std::uint16_t x[8];
};

/// Copies pixels of `channels` 16-bit values, which are `pitch` values apart, to contiguous pixels of 8 * `eights`
/// values, padded with zeros.
__global__ void widen_pixels(const std::uint16_t* from, std::int64_t pitch, std::int64_t channels, std::int64_t eights,
                             std::int64_t count, EightHalves* to) {
  each_index(count, [&](std::int64_t i) {
    const std::int64_t pixel = i / eights, first = (i - pixel * eights) * 8;
    EightHalves eight;
#pragma unroll
    for (int j = 0; j < 8; ++j) eight.x[j] = first + j < channels ? from[pixel * pitch + first + j] : std::uint16_t{0};
    to[i] = eight;
  });
}

/// 16-bit pixels in the form that a library reads: contiguous, with a multiple of eight channels. Pixels that already
/// have this form are not copied.
class PaddedPixels {
 public:
  PaddedPixels(const void* pixels, std::int64_t count, std::int64_t channels, std::int64_t pitch)
      : pixels_(pixels),
        channels_(channels),
        pitch_(pitch),
        eights_(ceil_div(channels, 8)),
        count_(count * eights_),
        copy_(pitch == 8 * eights_ ? 0 : count_) {}
  std::int64_t channels() const { return 8 * eights_; }
  const void* data() const { return copy_.data() != nullptr ? copy_.data() : pixels_; }
  void copy_in() const {
    if (copy_.data() != nullptr)
      launch(widen_pixels, grid_for(ceil_div(count_, kThreads)), kThreads, 0,
             static_cast<const std::uint16_t*>(pixels_), pitch_, channels_, eights_, count_, copy_.data());
  }

 private:
  const void* pixels_;
  std::int64_t channels_, pitch_, eights_, count_;
  Buffer<EightHalves> copy_;
};

/// Computes a weight gradient by a library from padded copies, for 16-bit tensors in layouts that cuDNN's engines do
/// not support (tests/cuda/conv_engines_test.cpp): channel slices, and pixels that do not all begin at multiples of 16
/// bytes. cuDNN proposes an engine for pixels of 8 bytes too, but its results are wrong (by 7 % for 20 channels and 12
/// filters in f16, cuDNN 9.19 on an H200). Padding with zeros changes no sum.
bool widened_by_library(const ConvWeightArgs& a) {
  const ConvShape& s = a.shape;
  const PaddedPixels x(a.x, s.images * s.height * s.width, s.channels, a.x_pitch);
  const PaddedPixels gy(a.gy, s.images * s.out_height * s.out_width, s.filters, a.gy_pitch);
  const std::int64_t positions = s.filter_height * s.filter_width;
  const bool narrower = x.channels() != s.channels || gy.channels() != s.filters;
  const Buffer<float> gw(narrower ? gy.channels() * positions * x.channels() : 0);
  ConvWeightArgs wide = a;
  wide.shape.channels = wide.x_pitch = x.channels();
  wide.shape.filters = wide.gy_pitch = gy.channels();
  wide.x = x.data();
  wide.gy = gy.data();
  if (narrower) wide.gw = gw.data();
  if (!library_has_conv(wide)) return false;
  x.copy_in();
  gy.copy_in();
  if (!library_conv_weight(wide)) return false;
  if (narrower) {
    const auto width = static_cast<std::size_t>(s.channels) * sizeof(float);
    check(cudaMemcpy2DAsync(a.gw, width, gw.data(), static_cast<std::size_t>(x.channels()) * sizeof(float), width,
                            static_cast<std::size_t>(s.filters * positions), cudaMemcpyDeviceToDevice,
                            context().stream),
          "gradients of filters");
  }
  return true;
}

/// Calls a library, directly or with copies. Returns false if no library computes the gradient.
bool conv_weight_by_library(const ConvWeightArgs& a) {
  const ConvShape& s = a.shape;
  const bool slices = a.x_pitch != s.channels || a.gy_pitch != s.filters;
  const bool ragged = s.channels / s.groups % 8 != 0 || s.filters / s.groups % 8 != 0;
  if (is_half(a.in) && ragged && s.groups > 1) return false;
  if (is_half(a.in) && s.groups == 1 && (slices || ragged)) return widened_by_library(a);
  if (library_conv_weight(a)) return true;
  if (!slices) return false;
  const ContiguousPixels x(a.x, a.in, s.images * s.height * s.width, s.channels, a.x_pitch);
  const ContiguousPixels gy(a.gy, a.in, s.images * s.out_height * s.out_width, s.filters, a.gy_pitch);
  ConvWeightArgs contiguous = a;
  contiguous.x = x.data();
  contiguous.x_pitch = s.channels;
  contiguous.gy = gy.data();
  contiguous.gy_pitch = s.filters;
  if (!library_has_conv(contiguous)) return false;
  x.copy_in();
  gy.copy_in();
  return library_conv_weight(contiguous);
}

}  // namespace

void own_conv_weight(const ConvWeightArgs& a) {
  const Plan p = plan_of(a);
  const bool loads_fours = conv::in_fours(a.x, a.in, a.x_pitch) && conv::in_fours(a.gy, a.in, a.gy_pitch) &&
                           p.channels % 4 == 0 && p.filters % 4 == 0;
  with_type(a.in, [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    if constexpr (sizeof(C) == sizeof(float))
      if (loads_fours) return start<T, C, 4>(p);
    start<T, C, 1>(p);
  });
}

void run_conv_weight(const ConvWeightArgs& a) {
  const ConvShape& s = a.shape;
  const std::int64_t size = s.filters * s.filter_height * s.filter_width * (s.channels / s.groups);
  if (size == 0) return;
  if (s.images * s.out_height * s.out_width == 0) {
    const std::size_t bytes = static_cast<std::size_t>(size) * (a.in == DType::f64 ? sizeof(double) : sizeof(float));
    return check(cudaMemsetAsync(a.gw, 0, bytes, context().stream), "cudaMemset");
  }
  if (conv_weight_by_library(a)) return;
  own_conv_weight(a);
}

}  // namespace binade::cuda
