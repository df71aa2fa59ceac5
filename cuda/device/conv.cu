#include "binade/cuda/device/conv.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/products.cuh"

/// Forward and data gradient as implicit products: a row is a pixel of the result, a column is a channel of the result,
/// and k runs over the filter's taps (positions) and the source channels. The data gradient is computed in the same way
/// from gy and transposed filters, once for each phase (position of a result pixel modulo the stride), so that only
/// taps that contribute are visited.
namespace binade::cuda {
namespace {

using namespace conv;

/// A forward pass or a data gradient, described by how its result is computed. Numbers of channels are per group.
struct Sweep {
  const void* source = nullptr;
  const void* filter = nullptr;
  const void* bias = nullptr;
  void* result = nullptr;
  DType out = DType::f32;
  std::int64_t images = 0, groups = 0;
  std::int64_t source_height = 0, source_width = 0, source_channels = 0, source_pitch = 0;
  std::int64_t result_height = 0, result_width = 0, result_channels = 0, result_pitch = 0;
  std::int64_t filter_extent[2] = {}, stride[2] = {}, padding[2] = {}, dilation[2] = {};
  std::int64_t source_step[2] = {}, result_step[2] = {};  // result pixel phase + i result_step reads source pixels
                                                          // around i source_step
  std::int64_t phases[2] = {};
  // Filter element (result channel j, source channel i of group g, position p) is at
  // g filter_group + j filter_j + i filter_i + p filter_position.
  std::int64_t filter_group = 0, filter_j = 0, filter_i = 0, filter_position = 0;
};

Sweep sweep_of(const ConvArgs& a) {
  const ConvShape& s = a.shape;
  const std::int64_t channels = s.channels / s.groups, filters = s.filters / s.groups;
  const std::int64_t positions = s.filter_height * s.filter_width;
  Sweep sweep{.source = a.source,
              .filter = a.filter,
              .bias = a.bias,
              .result = a.result,
              .out = a.out,
              .images = s.images,
              .groups = s.groups,
              .source_pitch = a.source_pitch,
              .result_pitch = a.result_pitch,
              .filter_extent = {s.filter_height, s.filter_width},
              .stride = {s.stride[0], s.stride[1]},
              .padding = {s.padding[0], s.padding[1]},
              .dilation = {s.dilation[0], s.dilation[1]},
              .filter_group = filters * positions * channels,
              .filter_position = channels};
  if (a.transposed) {
    sweep.source_height = s.out_height, sweep.source_width = s.out_width, sweep.source_channels = filters;
    sweep.result_height = s.height, sweep.result_width = s.width, sweep.result_channels = channels;
    sweep.filter_j = 1, sweep.filter_i = positions * channels;
    const std::int64_t extents[2] = {s.height, s.width};
    for (int d = 0; d < 2; ++d) {
      sweep.source_step[d] = 1;
      sweep.result_step[d] = s.stride[d];
      sweep.phases[d] = s.stride[d] < extents[d] ? s.stride[d] : extents[d];
    }
  } else {
    sweep.source_height = s.height, sweep.source_width = s.width, sweep.source_channels = channels;
    sweep.result_height = s.out_height, sweep.result_width = s.out_width, sweep.result_channels = filters;
    sweep.filter_j = positions * channels, sweep.filter_i = 1;
    for (int d = 0; d < 2; ++d) sweep.source_step[d] = s.stride[d], sweep.result_step[d] = sweep.phases[d] = 1;
  }
  return sweep;
}

/// The taps of one dimension that contribute in a phase: the filter positions first, first + step, …. Tap a reads the
/// source pixel at distance offset + a offset_step.
struct Taps {
  std::int64_t first, step, count, offset, offset_step;
};

template <bool kTransposed>
__device__ Taps taps_of(const Sweep& s, int d, std::int64_t phase) {
  if (!kTransposed) return {0, 1, s.filter_extent[d], -s.padding[d], s.dilation[d]};
  // x pixel h contributes to y pixel p if h + padding = p stride + r dilation. For h = phase + i stride these are the r
  // for which the stride divides phase + padding - r dilation.
  std::int64_t divisor = s.stride[d];
  for (std::int64_t b = s.dilation[d]; b != 0;) {
    const std::int64_t rest = divisor % b;
    divisor = b;
    b = rest;
  }
  Taps taps{0, s.stride[d] / divisor, 0, 0, -(s.dilation[d] / divisor)};
  for (std::int64_t r = 0; r < taps.step && r < s.filter_extent[d]; ++r) {
    const std::int64_t from = phase + s.padding[d] - r * s.dilation[d];
    if (from % s.stride[d] != 0) continue;
    taps.first = r;
    taps.offset = from / s.stride[d];
    taps.count = (s.filter_extent[d] - r + taps.step - 1) / taps.step;
    break;
  }
  return taps;
}

/// The addresses that the 16 steps of a chunk of k read, in the source and in the filter.
struct Chunk {
  std::int64_t y[kDepth], x[kDepth];  // distance from source pixel i source_step; kNowhere past the last k
  std::int64_t source[kDepth];        // the same distance in elements, channel included
  std::int64_t filter[kDepth];        // element offset in the group's filters; -1 past the last k
};

/// The position in k of one of the 16 steps. It advances from chunk to chunk.
struct Step {
  std::int64_t row = 0, column = 0, channel = 0;  // row and column of the tap, source channel

  __device__ void forward(std::int64_t by, const Taps& columns, std::int64_t channels) {
    for (channel += by; channel >= channels; channel -= channels)
      if (++column == columns.count) column = 0, ++row;
  }
  __device__ void put(Chunk& chunk, int i, const Sweep& s, const Taps& rows, const Taps& columns) const {
    if (row >= rows.count) {
      chunk.y[i] = chunk.x[i] = kNowhere;
      chunk.source[i] = 0;
      chunk.filter[i] = -1;
      return;
    }
    const std::int64_t y = rows.offset + row * rows.offset_step, x = columns.offset + column * columns.offset_step;
    const std::int64_t position = (rows.first + row * rows.step) * s.filter_extent[1] + columns.first +
                                  column * columns.step;
    chunk.y[i] = y;
    chunk.x[i] = x;
    chunk.source[i] = (y * s.source_width + x) * s.source_pitch + channel;
    chunk.filter[i] = position * s.filter_position + channel * s.filter_i;
  }
};

/// Computes tiles of kM pixels by kN channels. kPer: number of contiguous values that are read at a time.
template <class T, class C, bool kTransposed, int kM, int kN, int kPer>
__global__ void __launch_bounds__(kThreads) conv_tiles(Sweep s, std::int64_t tiles, std::uint32_t* words) {
  constexpr int kRows = kM / 16, kColumns = kN / 16;           // rows and columns of one thread
  constexpr int kAcross = kDepth / kPer;                       // threads along k
  constexpr int kALoads = kM * kAcross / kThreads, kPad = 4;   // runs of kPer values that a thread reads per chunk
  constexpr int kBAcross = kTransposed ? kN / kPer : kAcross;  // along channels, or along k
  constexpr int kBLoads = kN * kDepth / kPer / kThreads;
  alignas(16) __shared__ C a[2][kDepth][kM + kPad];
  alignas(16) __shared__ C b[2][kDepth][kN + kPad];
  __shared__ Chunk chunks[2];
  __shared__ std::int64_t row_y[kM], row_x[kM], row_source[kM], row_result[kM];

  const T* const source = static_cast<const T*>(s.source);
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / 16 * kRows, column = thread % 16 * kColumns;
  const std::int64_t most_pixels = s.images * ((s.result_height + s.result_step[0] - 1) / s.result_step[0]) *
                                   ((s.result_width + s.result_step[1] - 1) / s.result_step[1]);
  const std::int64_t row_tiles = (most_pixels + kM - 1) / kM, column_tiles = (s.result_channels + kN - 1) / kN;
  AmaxObserver amax(words, s.out);

  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    std::int64_t rest = tile / column_tiles;
    const std::int64_t first_channel = (tile - rest * column_tiles) * kN;
    const std::int64_t first_pixel = rest % row_tiles * kM;
    rest /= row_tiles;
    const std::int64_t group = rest % s.groups;
    rest /= s.groups;
    const std::int64_t phase_y = rest / s.phases[1], phase_x = rest % s.phases[1];
    const std::int64_t height = (s.result_height - phase_y + s.result_step[0] - 1) / s.result_step[0];
    const std::int64_t width = (s.result_width - phase_x + s.result_step[1] - 1) / s.result_step[1];
    const Taps rows = taps_of<kTransposed>(s, 0, phase_y), columns = taps_of<kTransposed>(s, 1, phase_x);
    const std::int64_t depth = rows.count * columns.count * s.source_channels;
    const std::int64_t count = (depth + kDepth - 1) / kDepth;
    const T* const filter = static_cast<const T*>(s.filter) + group * s.filter_group;

    __syncthreads();  // the previous tile is done
    for (int m = thread; m < kM; m += kThreads) {
      const std::int64_t pixel = first_pixel + m;
      const std::int64_t line = pixel / width, image = line / height;
      const std::int64_t i = line - image * height, j = pixel - line * width;
      const bool in_range = image < s.images;
      const std::int64_t y = i * s.source_step[0], x = j * s.source_step[1];
      row_y[m] = in_range ? y : kNowhere;
      row_x[m] = x;
      row_source[m] = ((image * s.source_height + y) * s.source_width + x) * s.source_pitch + group * s.source_channels;
      row_result[m] = !in_range ? -1
                                : ((image * s.result_height + phase_y + i * s.result_step[0]) * s.result_width +
                                   phase_x + j * s.result_step[1]) *
                                      s.result_pitch;
    }
    Step step;
    if (thread < kDepth && depth > 0) {
      step.forward(thread, columns, s.source_channels);
      step.put(chunks[0], thread, s, rows, columns);
      step.forward(kDepth, columns, s.source_channels);
      step.put(chunks[1], thread, s, rows, columns);
    }
    __syncthreads();

    C next_a[kALoads][kPer], next_b[kBLoads][kPer];
    const auto fetch = [&](const Chunk& chunk) {
      const int k = thread % kAcross * kPer;
      const std::int64_t y = chunk.y[k], x = chunk.x[k], at = chunk.source[k];
#pragma unroll
      for (int i = 0; i < kALoads; ++i) {
        const int m = thread / kAcross + i * (kThreads / kAcross);
        const bool in_range = inside(row_y[m] + y, s.source_height) && inside(row_x[m] + x, s.source_width);
        load_run<kPer>(source + (in_range ? row_source[m] + at : 0), in_range, next_a[i]);
      }
#pragma unroll
      for (int i = 0; i < kBLoads; ++i) {
        const int across = thread % kBAcross * kPer, along = thread / kBAcross + i * (kThreads / kBAcross);
        const std::int64_t from = chunk.filter[kTransposed ? along : across];
        const std::int64_t channel = first_channel + (kTransposed ? across : along);
        const bool in_range = from >= 0 && channel < s.result_channels;
        load_run<kPer>(filter + (in_range ? from + channel * s.filter_j : 0), in_range, next_b[i]);
      }
    };
    const auto put = [&](int half) {
#pragma unroll
      for (int i = 0; i < kALoads; ++i) {
#pragma unroll
        for (int e = 0; e < kPer; ++e)
          a[half][thread % kAcross * kPer + e][thread / kAcross + i * (kThreads / kAcross)] = next_a[i][e];
      }
#pragma unroll
      for (int i = 0; i < kBLoads; ++i) {
#pragma unroll
        for (int e = 0; e < kPer; ++e) {
          const int across = thread % kBAcross * kPer + e, along = thread / kBAcross + i * (kThreads / kBAcross);
          b[half][kTransposed ? along : across][kTransposed ? across : along] = next_b[i][e];
        }
      }
    };

    C sums[kRows][kColumns] = {};
    if (count > 0) {
      fetch(chunks[0]);
      put(0);
    }
    __syncthreads();
    for (std::int64_t c = 0; c < count; ++c) {
      const int half = static_cast<int>(c % 2);
      // Chunk c + 1 was prepared in the last iteration; the offsets of chunk c are overwritten by those of chunk c + 2.
      if (c + 1 < count) fetch(chunks[1 - half]);
      if (thread < kDepth) {
        step.forward(kDepth, columns, s.source_channels);
        step.put(chunks[half], thread, s, rows, columns);
      }
      multiply<kRows, kColumns>(a[half], b[half], row, column, sums);
      if (c + 1 < count) put(1 - half);
      __syncthreads();
    }

#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const std::int64_t channel = first_channel + column + j;
      if (channel >= s.result_channels) continue;
      const std::int64_t c = group * s.result_channels + channel;
      const C bias = s.bias != nullptr ? static_cast<const C*>(s.bias)[c] : C(0);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (row_result[row + i] < 0) continue;
        const C y = s.bias != nullptr ? sums[i][j] + bias : sums[i][j];
        amax.add(y);
        store_at(s.result, s.out, row_result[row + i] + c, y);
      }
    }
  }
  amax.publish();
}

/// Computes convolutions with few channels per group (such as depthwise ones), with one thread per element of the
/// result. Neighboring threads compute neighboring channels.
template <class T, class C, bool kTransposed>
__global__ void __launch_bounds__(kThreads) conv_elements(Sweep s, std::int64_t count, std::uint32_t* words) {
  const T* const source = static_cast<const T*>(s.source);
  const std::int64_t channels = s.result_channels * s.groups;
  AmaxObserver amax(words, s.out);
  each_index(count, [&](std::int64_t e) {
    const std::int64_t pixel = e / channels, c = e - pixel * channels;
    const std::int64_t line = pixel / s.result_width, image = line / s.result_height;
    const std::int64_t py = line - image * s.result_height, px = pixel - line * s.result_width;
    const std::int64_t group = c / s.result_channels;
    const T* const filter = static_cast<const T*>(s.filter) + group * s.filter_group +
                            (c - group * s.result_channels) * s.filter_j;
    const std::int64_t phase_y = kTransposed ? py % s.stride[0] : 0, phase_x = kTransposed ? px % s.stride[1] : 0;
    const std::int64_t y0 = (py - phase_y) / s.result_step[0] * s.source_step[0];
    const std::int64_t x0 = (px - phase_x) / s.result_step[1] * s.source_step[1];
    const Taps rows = taps_of<kTransposed>(s, 0, phase_y), columns = taps_of<kTransposed>(s, 1, phase_x);
    C sum = 0;
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const std::int64_t y = y0 + rows.offset + i * rows.offset_step;
      if (!inside(y, s.source_height)) continue;
      for (std::int64_t j = 0; j < columns.count; ++j) {
        const std::int64_t x = x0 + columns.offset + j * columns.offset_step;
        if (!inside(x, s.source_width)) continue;
        const T* const from = source + ((image * s.source_height + y) * s.source_width + x) * s.source_pitch +
                              group * s.source_channels;
        const T* const weights = filter + ((rows.first + i * rows.step) * s.filter_extent[1] + columns.first +
                                           j * columns.step) *
                                              s.filter_position;
        for (std::int64_t k = 0; k < s.source_channels; ++k)
          sum += static_cast<C>(widened(from[k])) * static_cast<C>(widened(weights[k * s.filter_i]));
      }
    }
    if (s.bias != nullptr) sum += static_cast<const C*>(s.bias)[c];
    amax.add(sum);
    store_at(s.result, s.out, pixel * s.result_pitch + c, sum);
  });
  amax.publish();
}

template <class T, class C, bool kTransposed, int kM, int kN, int kPer>
void start_tiles(const Sweep& s, std::uint32_t* words) {
  const std::int64_t pixels = s.images * ceil_div(s.result_height, s.result_step[0]) *
                              ceil_div(s.result_width, s.result_step[1]);
  const std::int64_t tiles = s.phases[0] * s.phases[1] * s.groups * ceil_div(pixels, kM) *
                             ceil_div(s.result_channels, kN);
  launch(conv_tiles<T, C, kTransposed, kM, kN, kPer>, blocks_for(tiles), kThreads, 0, s, tiles, words);
}

template <class T, class C, bool kTransposed>
void start(const Sweep& s, DType in, std::uint32_t* words) {
  constexpr std::int64_t kFewChannels = 16;
  if (s.groups > 1 && s.result_channels < kFewChannels) {
    const std::int64_t count = s.images * s.result_height * s.result_width * s.groups * s.result_channels;
    return launch(conv_elements<T, C, kTransposed>, grid_for(ceil_div(count, kThreads)), kThreads, 0, s, count, words);
  }
  if constexpr (sizeof(C) == sizeof(float)) {
    const bool loads_fours = in_fours(s.source, in, s.source_pitch) && in_fours(s.filter, in, 4) &&
                             s.source_channels % 4 == 0 && s.result_channels % 4 == 0;
    if (loads_fours) return start_tiles<T, C, kTransposed, 128, 64, 4>(s, words);
    return start_tiles<T, C, kTransposed, 64, 64, 1>(s, words);
  } else {
    return start_tiles<T, C, kTransposed, 32, 32, 1>(s, words);
  }
}

/// Calls a library, directly or with copies of channel slices, and observes the result. Returns false if no library
/// computes it.
bool conv_by_library(const ConvArgs& a, std::int64_t pixels, std::int64_t channels) {
  const auto observe = [&](const void* result, std::int64_t pitch) {
    const Finish at{.y = {const_cast<void*>(result), a.out}, .row = pitch, .batch = {}, .words = context().amax_words};
    observe_products(at, 1, pixels, channels);
  };
  const ConvShape& s = a.shape;
  const std::int64_t source_channels = a.transposed ? s.filters : s.channels;
  const bool slices = a.source_pitch != source_channels || a.result_pitch != channels;
  // Engines that add a bias to 16-bit results on Tensor Cores do not support slices (tests/cuda/conv_engines_test.cpp).
  if (!(slices && is_half(a.in) && a.bias != nullptr) && library_conv(a))
    return observe(a.result, a.result_pitch), true;
  if (!slices) return false;
  const std::int64_t source_pixels = s.images * (a.transposed ? s.out_height * s.out_width : s.height * s.width);
  const ContiguousPixels source(a.source, a.in, source_pixels, source_channels, a.source_pitch);
  const ContiguousPixels result(a.result, a.out, pixels, channels, a.result_pitch);
  ConvArgs contiguous = a;
  contiguous.source = source.data();
  contiguous.source_pitch = source_channels;
  contiguous.result = result.data();
  contiguous.result_pitch = channels;
  if (!library_has_conv(contiguous)) return false;
  source.copy_in();
  if (!library_conv(contiguous)) return false;
  observe(result.data(), channels);
  result.copy_out();
  return true;
}

}  // namespace

void own_conv(const ConvArgs& a, std::uint32_t* words) {
  const Sweep s = sweep_of(a);
  with_type(a.in, [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    a.transposed ? start<T, C, true>(s, a.in, words) : start<T, C, false>(s, a.in, words);
  });
}

ContiguousPixels::ContiguousPixels(const void* pixels, DType dtype, std::int64_t count, std::int64_t channels,
                                   std::int64_t pitch)
    : pixels_(pixels),
      width_(static_cast<std::size_t>(channels) * size_of(dtype)),
      pitch_(static_cast<std::size_t>(pitch) * size_of(dtype)),
      count_(static_cast<std::size_t>(count)),
      copy_(pitch == channels ? 0 : static_cast<std::int64_t>(width_ * count_)) {}

void ContiguousPixels::copy_in() const {
  if (is_copy())
    check(cudaMemcpy2DAsync(copy_.data(), width_, pixels_, pitch_, width_, count_, cudaMemcpyDeviceToDevice,
                            context().stream),
          "a copy of a channel slice");
}
void ContiguousPixels::copy_out() const {
  if (is_copy())
    check(cudaMemcpy2DAsync(const_cast<void*>(pixels_), pitch_, copy_.data(), width_, width_, count_,
                            cudaMemcpyDeviceToDevice, context().stream),
          "a copy of a channel slice");
}

void run_conv(const ConvArgs& a) {
  const ConvShape& s = a.shape;
  const std::int64_t pixels = s.images * (a.transposed ? s.height * s.width : s.out_height * s.out_width);
  const std::int64_t channels = a.transposed ? s.channels : s.filters;
  if (pixels * channels == 0) return;
  // A library is not called if the result or the sums are empty.
  const bool empty = s.out_height * s.out_width * s.filters * s.height * s.width * s.channels == 0;
  if (!empty && conv_by_library(a, pixels, channels)) return;
  own_conv(a, context().amax_words);
}

}  // namespace binade::cuda
