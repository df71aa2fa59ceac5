#include "core/kernels/pool.h"

#include <algorithm>
#include <limits>

#include "core/kernels/lanes.h"
#include "core/parallel.h"

namespace binade::cpu::BINADE_ISA {
namespace {

/// Integers as wide as the computing type: what comparisons of its registers give.
template <class T>
using Word = std::conditional_t<std::is_same_v<T, double>, std::int64_t, std::int32_t>;
template <class T>
using Words = Vector<Word<T>>;

/// The general case of the two below: lane by lane.
template <class T, class I>
void put_index_lanes(I* to, const Words<T>& index, int count) {
  for (int i = 0; i < count; ++i) to[i] = static_cast<I>(index[i]);
}
template <class T, class I>
Words<T> get_index_lanes(const I* from, int count) {
  Words<T> index{};
  for (int i = 0; i < count; ++i) index[i] = from[i];
  return index;
}

template <class T, class I, class P>
void put_index(I* to, const Words<T>& index, P part) {
  if constexpr (std::is_same_v<P, Part>) return put_index_lanes<T>(to, index, part.count);
  if constexpr (sizeof(I) == sizeof(Word<T>)) return store_vector<Word<T>>(to, index);
#if defined(__AVX512F__)
  if constexpr (sizeof(I) == 1 && !std::is_same_v<T, double>)
    return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)index));
#elif defined(__AVX2__)
  if constexpr (sizeof(I) == 1 && !std::is_same_v<T, double>) {
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128((__m256i)index),
                                           _mm256_extracti128_si256((__m256i)index, 1));
    return _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
  }
#endif
  put_index_lanes<T>(to, index, kWideLanes<T>);
}
template <class T, class I, class P>
Words<T> get_index(const I* from, P part) {
  if constexpr (std::is_same_v<P, Part>) return get_index_lanes<T>(from, part.count);
  if constexpr (sizeof(I) == sizeof(Word<T>)) return load_vector<Word<T>>(from);
#if defined(__AVX512F__)
  if constexpr (sizeof(I) == 1 && !std::is_same_v<T, double>)
    return (Words<T>)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__AVX2__)
  if constexpr (sizeof(I) == 1 && !std::is_same_v<T, double>)
    return (Words<T>)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#endif
  return get_index_lanes<T>(from, kWideLanes<T>);
}

/// Output rows (image, oh) per task, by size alone.
std::int64_t grain_of(std::int64_t width, std::int64_t channels) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width * channels));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/// A window's pixels inside the image: `rows` x `columns`; as constants where they are the usual ones.
template <int kRows, int kColumns>
struct FixedExtent {
  static constexpr std::int64_t rows = kRows, columns = kColumns;
};
struct AnyExtent {
  std::int64_t rows, columns;
};

template <class T, class I>
void max_forward_row(const MaxPool& a, std::int64_t image, std::int64_t oh, Seen& seen) {
  const std::int64_t top = oh * a.stride_h - a.padding_h;
  const std::int64_t h0 = std::max<std::int64_t>(0, top), h1 = std::min(a.height, top + a.kernel_h);
  const std::int64_t pitch = a.x_pitch, row_pitch = a.width * pitch;
  const auto kernel_width = static_cast<Word<T>>(a.kernel_w);
  for (std::int64_t ow = 0; ow < a.out_width; ++ow) {
    const std::int64_t left = ow * a.stride_w - a.padding_w;
    const std::int64_t w0 = std::max<std::int64_t>(0, left), w1 = std::min(a.width, left + a.kernel_w);
    const std::int64_t out = ((image * a.out_height + oh) * a.out_width + ow) * a.channels;
    const T* x = static_cast<const T*>(a.x) + ((image * a.height + h0) * a.width + w0) * pitch;
    const auto first = static_cast<Word<T>>((h0 - top) * a.kernel_w + w0 - left);
    const auto over = [&](auto extent) {
      each_group<T>(
          a.channels, [&](std::int64_t c, auto part) __attribute__((always_inline)) {
            Wide<T> best = splat(-std::numeric_limits<Compute<T>>::infinity());
            Words<T> taken = splat(first), row_index = taken;
            const T* row = x + c;
#pragma GCC unroll 2
            for (std::int64_t h = 0; h < extent.rows; ++h, row += row_pitch, row_index += kernel_width) {
              const T* from = row;
              Words<T> index = row_index;
#pragma GCC unroll 2
              for (std::int64_t w = 0; w < extent.columns; ++w, from += pitch, index += 1) {
                const Wide<T> v = get(from, part);
                const Words<T> take = (v > best) | (v != v);  // a NaN is taken, and nothing is larger than it then
                best = take ? v : best;
                taken = take ? index : taken;
              }
            }
            put(static_cast<T*>(a.y) + out + c, best, part, seen);
            if (a.index != nullptr) put_index<T>(static_cast<I*>(a.index) + out + c, taken, part);
          });
    };
    h1 - h0 == 2 && w1 - w0 == 2 ? over(FixedExtent<2, 2>{}) : over(AnyExtent{h1 - h0, w1 - w0});
  }
}

/// A pixel's gradient, added to what is there if that is wanted: as if it had been stored alone first.
template <class T, class P>
[[gnu::always_inline]] inline void put_gradient(const MaxPool& a, T* gx, Wide<T> sum, P part, Seen& seen) {
  if (a.accumulate) {
    T own[kWideLanes<T>];
    put(own, sum, part);
    sum = get(static_cast<const T*>(gx), part) + get(static_cast<const T*>(own), part);
  }
  put(gx, sum, part, seen);
}

/// Windows that lie side by side without a gap: each writes its own pixels, the last ones what is left beside them.
bool tiles_image(const MaxPool& a) {
  return a.kernel_h == a.stride_h && a.kernel_w == a.stride_w && a.padding_h == 0 && a.padding_w == 0 &&
         a.out_height > 0 && a.out_height * a.kernel_h <= a.height && a.out_width > 0 &&
         a.out_width * a.kernel_w <= a.width;
}
template <class T, class I>
void max_backward_windows(const MaxPool& a, std::int64_t image, std::int64_t oh, Seen& seen) {
  const std::int64_t row_pitch = a.width * a.gx_pitch;
  T* row = static_cast<T*>(a.gx) + (image * a.height + oh * a.kernel_h) * row_pitch;
  for (std::int64_t ow = 0; ow < a.out_width; ++ow) {
    const std::int64_t window = (image * a.out_height + oh) * a.out_width + ow;
    const I* indices = static_cast<const I*>(a.index) + window * a.channels;
    const T* gy = static_cast<const T*>(a.gy) + window * a.gy_pitch;
    T* gx = row + ow * a.kernel_w * a.gx_pitch;
    const auto over = [&](auto extent) {
      each_group<T>(
          a.channels, [&](std::int64_t c, auto part) __attribute__((always_inline)) {
            const Words<T> index = get_index<T>(indices + c, part);
            const Wide<T> g = get(gy + c, part);
            Words<T> here{};
#pragma GCC unroll 2
            for (std::int64_t h = 0; h < extent.rows; ++h)
#pragma GCC unroll 2
              for (std::int64_t w = 0; w < extent.columns; ++w, here += 1)
                put_gradient(a, gx + h * row_pitch + w * a.gx_pitch + c, index == here ? g : Wide<T>{}, part, seen);
          });
    };
    a.kernel_h == 2 && a.kernel_w == 2 ? over(FixedExtent<2, 2>{}) : over(AnyExtent{a.kernel_h, a.kernel_w});
  }
  const auto nothing = [&](std::int64_t h, std::int64_t from_column) {
    for (std::int64_t w = from_column; w < a.width; ++w)
      each_group<T>(a.channels, [&](std::int64_t c, auto part) {
        put_gradient(a, row + h * row_pitch + w * a.gx_pitch + c, Wide<T>{}, part, seen);
      });
  };
  for (std::int64_t h = 0; h < a.kernel_h; ++h) nothing(h, a.out_width * a.kernel_w);
  if (oh + 1 == a.out_height)
    for (std::int64_t h = a.kernel_h; h < a.height - oh * a.kernel_h; ++h) nothing(h, 0);
}

template <class T, class I>
void max_backward_row(const MaxPool& a, std::int64_t image, std::int64_t h, Seen& seen) {
  // Windows [oh0, oh1) x [ow0, ow1) contain the pixel; along the row ow0 and ow1 only grow.
  const std::int64_t oh0 = std::max<std::int64_t>(0, ceil_div(h + a.padding_h - a.kernel_h + 1, a.stride_h));
  const std::int64_t oh1 = std::min(a.out_height, (h + a.padding_h) / a.stride_h + 1);
  std::int64_t ow0 = 0, ow1 = 0;
  for (std::int64_t w = 0; w < a.width; ++w) {
    while (ow1 < a.out_width && ow1 * a.stride_w - a.padding_w <= w) ++ow1;
    while (ow0 < ow1 && ow0 * a.stride_w - a.padding_w + a.kernel_w <= w) ++ow0;
    T* gx = static_cast<T*>(a.gx) + ((image * a.height + h) * a.width + w) * a.gx_pitch;
    /// What comes to channels c from one window; nothing, where no window's pixel is the `here`th.
    const auto from_window = [&](std::int64_t oh, std::int64_t ow) {
      const std::int64_t window = (image * a.out_height + oh) * a.out_width + ow;
      const std::int64_t here = (h - (oh * a.stride_h - a.padding_h)) * a.kernel_w + w -
                                (ow * a.stride_w - a.padding_w);
      return [index = static_cast<const I*>(a.index) + window * a.channels,
              gy = static_cast<const T*>(a.gy) + window * a.gy_pitch,
              here = splat(static_cast<Word<T>>(here))](std::int64_t c, const Wide<T>& sum, auto part) {
        return get_index<T>(index + c, part) == here ? sum + get(gy + c, part) : sum;
      };
    };
    each_group<T>(a.channels, [&](std::int64_t c, auto part) {
      Wide<T> sum{};
      for (std::int64_t oh = oh0; oh < oh1; ++oh)
        for (std::int64_t ow = ow0; ow < ow1; ++ow) sum = from_window(oh, ow)(c, sum, part);
      put_gradient(a, gx + c, sum, part, seen);
    });
  }
}

/// f(image, row, seen) over every row of `height` x `width` pixels, in parallel; f stores values of type T.
template <class T, class F>
void each_row(std::int64_t images, std::int64_t height, std::int64_t width, std::int64_t channels, F&& f) {
  parallel_for(images * height, grain_of(width, channels), [&](std::int64_t begin, std::int64_t end) {
    Seen seen(kDTypeOf<T>);
    for (std::int64_t i = begin; i < end; ++i) f(i / height, i % height, seen);
  });
}

/// f(TypeTag of values, TypeTag of indices).
template <class F>
void dispatch_pool(const MaxPool& a, F&& f) {
  dispatch_float(a.dtype, "max_pool2d", [&](auto value) {
    a.index_dtype == DType::u8 ? f(value, TypeTag<std::uint8_t>{}) : f(value, TypeTag<std::int32_t>{});
  });
}

void max_forward(const MaxPool& a) {
  dispatch_pool(a, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    each_row<T>(a.images, a.out_height, a.out_width, a.channels,
                [&](std::int64_t n, std::int64_t oh, Seen& seen) { max_forward_row<T, I>(a, n, oh, seen); });
  });
}

void max_backward(const MaxPool& a) {
  dispatch_pool(a, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    if (tiles_image(a))
      each_row<T>(a.images, a.out_height, a.width * a.kernel_h, a.channels,
                  [&](std::int64_t n, std::int64_t oh, Seen& seen) { max_backward_windows<T, I>(a, n, oh, seen); });
    else
      each_row<T>(a.images, a.height, a.width, a.channels,
                  [&](std::int64_t n, std::int64_t h, Seen& seen) { max_backward_row<T, I>(a, n, h, seen); });
  });
}

double divisor(const Taps& rows, const Taps& cols, std::int64_t row, std::int64_t col) {
  return rows.divisor == nullptr ? 1.0 : rows.divisor[row] * cols.divisor[col];
}

template <class T>
void resample_pixel(const Resample& a, std::int64_t image, std::int64_t oh, std::int64_t ow, Seen& seen) {
  using C = Compute<T>;
  const bool after = !a.divide_before && a.rows.divisor != nullptr;
  const Wide<T> divisor_after = splat(static_cast<C>(after ? divisor(a.rows, a.cols, oh, ow) : 1.0));
  T* y = static_cast<T*>(a.y) + ((image * a.out_height + oh) * a.out_width + ow) * a.channels;
  each_group<T>(a.channels, [&](std::int64_t c, auto part) {
    const T* x = static_cast<const T*>(a.x) + c;
    Wide<T> sum{};
    for (std::int64_t i = a.rows.begin[oh]; i < a.rows.begin[oh + 1]; ++i)
      for (std::int64_t j = a.cols.begin[ow]; j < a.cols.begin[ow + 1]; ++j) {
        const std::int64_t h = a.rows.source[i], w = a.cols.source[j];
        Wide<T> v = get(x + ((image * a.height + h) * a.width + w) * a.x_pitch, part);
        if (a.divide_before) v /= splat(static_cast<C>(divisor(a.rows, a.cols, h, w)));
        sum = multiply_add(v, splat(static_cast<C>(a.rows.weight[i] * a.cols.weight[j])), sum);
      }
    if (after) sum /= divisor_after;
    put(y + c, sum, part, seen);
  });
}

void resample(const Resample& a) {
  dispatch_float(a.dtype, "resample", [&]<class T>(TypeTag<T>) {
    each_row<T>(a.images, a.out_height, a.out_width, a.channels, [&](std::int64_t n, std::int64_t oh, Seen& seen) {
      for (std::int64_t ow = 0; ow < a.out_width; ++ow) resample_pixel<T>(a, n, oh, ow, seen);
    });
  });
}

}  // namespace

const PoolKernels& pool_kernels() {
  static constexpr PoolKernels kernels{&max_forward, &max_backward, &resample};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
