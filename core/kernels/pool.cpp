#include "binade/core/kernels/pool.h"

#include <algorithm>
#include <limits>

#include "binade/core/kernels/lanes.h"
#include "binade/core/parallel.h"

namespace binade::cpu::BINADE_ISA {
namespace {

/// The integers that comparisons of registers of the computing type return; they are as wide as that type.
template <class T>
using Word = std::conditional_t<std::is_same_v<T, double>, std::int64_t, std::int32_t>;
template <class T>
using Words = Vector<Word<T>>;

/// Store and load indices lane by lane: the general case of put_index() and get_index() below.
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

/// Returns the number of output rows (image, oh) per task, which depends on the size of a row only.
std::int64_t grain_of(std::int64_t width, std::int64_t channels) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width * channels));
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/// Pixels of a window inside the image: `rows` x `columns`, compile-time constants for the common sizes.
template <int kRows, int kColumns>
struct FixedExtent {
  static constexpr std::int64_t rows = kRows, columns = kColumns;
};
struct AnyExtent {
  std::int64_t rows, columns;
};

template <class T>
struct Best {
  Wide<T> value;
  Words<T> index;
};

/// Returns the largest of rows x columns pixels from `from` on: the first of equal ones, or the last NaN; -inf if there
/// are no pixels, as in a window that covers padding only. Indices start at `first` and advance from row to row by the
/// kernel's width.
template <class T, class P>
[[gnu::always_inline]] inline Best<T> best_of(const MaxPool& a, const T* from, std::int64_t rows, std::int64_t columns,
                                              Word<T> first, P part) {
  Best<T> best{splat(-std::numeric_limits<Compute<T>>::infinity()), splat(first)};
  for (std::int64_t h = 0; h < rows; ++h)
    for (std::int64_t w = 0; w < columns; ++w) {
      const Wide<T> v = get(from + (h * a.width + w) * a.x_pitch, part);
      const Words<T> take = (v > best.value) | (v != v);  // takes NaN, after which no value compares as larger
      best.value = take ? v : best.value;
      best.index = take ? splat(static_cast<Word<T>>(first + h * a.kernel_w + w)) : best.index;
    }
  return best;
}

/// Computes best_of() for 2 x 2 pixels, by a tree of comparisons if none of them is NaN.
template <class T, class P>
[[gnu::always_inline]] inline Best<T> best_of_four(const MaxPool& a, const T* from, Word<T> first, P part) {
  const T* next_row = from + a.width * a.x_pitch;
  const Wide<T> left = get(from, part), right = get(from + a.x_pitch, part);
  const Wide<T> next_left = get(next_row, part), next_right = get(next_row + a.x_pitch, part);
  if (any_nan((left + right) + (next_left + next_right)))
      [[unlikely]]  // true also for +inf with -inf, whose sum is NaN
    return best_of(a, from, 2, 2, first, part);
  const Wide<T> upper = right > left ? right : left, lower = next_right > next_left ? next_right : next_left;
  const Wide<T> best = lower > upper ? lower : upper;
  const auto next = static_cast<Word<T>>(first + a.kernel_w);
  Words<T> index = next_left == best ? splat(next) : splat(static_cast<Word<T>>(next + 1));
  index = right == best ? splat(static_cast<Word<T>>(first + 1)) : index;
  return {best, left == best ? splat(first) : index};
}

template <class T, class I>
void max_forward_row(const MaxPool& a, std::int64_t image, std::int64_t oh, AmaxObserver& amax) {
  const std::int64_t top = oh * a.stride_h - a.padding_h;
  const std::int64_t h0 = std::max<std::int64_t>(0, top), h1 = std::min(a.height, top + a.kernel_h);
  const std::int64_t row = (image * a.out_height + oh) * a.out_width * a.channels;
  const T* pixels = static_cast<const T*>(a.x) + (image * a.height + h0) * a.width * a.x_pitch;
  LoopAmaxObserver stored(amax);
  for (std::int64_t ow = 0; ow < a.out_width; ++ow) {
    const std::int64_t left = ow * a.stride_w - a.padding_w;
    const std::int64_t w0 = std::max<std::int64_t>(0, left), w1 = std::min(a.width, left + a.kernel_w);
    const auto first = static_cast<Word<T>>((h0 - top) * a.kernel_w + w0 - left);
    const T* x = pixels + w0 * a.x_pitch;
    T* y = static_cast<T*>(a.y) + row + ow * a.channels;
    I* indices = a.index == nullptr ? nullptr : static_cast<I*>(a.index) + row + ow * a.channels;
    const auto over = [&](auto&& best_at) {
      each_sweep<T, 2>(
          a.channels, [&](std::int64_t c, auto n, auto part) __attribute__((always_inline)) {
            Wide<T> values[n];
            for (int i = 0; i < n; ++i) {
              const std::int64_t at = c + i * kWideLanes<T>;
              const Best<T> best = best_at(x + at, part);
              values[i] = best.value;
              if (indices != nullptr) put_index<T>(indices + at, best.index, part);
            }
            put_sweep(y + c, values, part, stored);
          });
    };
    if (h1 - h0 == 2 && w1 - w0 == 2)
      over([&](const T* from, auto part) __attribute__((always_inline)) { return best_of_four(a, from, first, part); });
    else
      over([&](const T* from, auto part)
               __attribute__((always_inline)) { return best_of(a, from, h1 - h0, w1 - w0, first, part); });
  }
}

/// Stores the gradients of a pixel's channels. If a.accumulate, rounds them first and then adds them to gx, which gives
/// the same bits as storing them and adding afterwards.
template <class T, int n, class P>
[[gnu::always_inline]] inline void put_gradients(const MaxPool& a, T* gx, Wide<T> (&sums)[n], P part,
                                                 LoopAmaxObserver& amax) {
  for (int i = 0; i < n && a.accumulate; ++i) {
    T own[kWideLanes<T>];
    put(own, sums[i], part);
    sums[i] = get(static_cast<const T*>(gx) + i * kWideLanes<T>, part) + get(static_cast<const T*>(own), part);
  }
  put_sweep(gx, sums, part, amax);
}

/// Returns true if windows are adjacent without gaps. Each window then writes the gradients of its own pixels, and the
/// last windows also those of the rest of the image.
bool tiles_image(const MaxPool& a) {
  return a.kernel_h == a.stride_h && a.kernel_w == a.stride_w && a.padding_h == 0 && a.padding_w == 0 &&
         a.out_height > 0 && a.out_height * a.kernel_h <= a.height && a.out_width > 0 &&
         a.out_width * a.kernel_w <= a.width;
}
template <class T, class I>
void max_backward_windows(const MaxPool& a, std::int64_t image, std::int64_t oh, AmaxObserver& amax) {
  LoopAmaxObserver stored(amax);
  const std::int64_t row_pitch = a.width * a.gx_pitch;
  T* row = static_cast<T*>(a.gx) + (image * a.height + oh * a.kernel_h) * row_pitch;
  for (std::int64_t ow = 0; ow < a.out_width; ++ow) {
    const std::int64_t window = (image * a.out_height + oh) * a.out_width + ow;
    const I* indices = static_cast<const I*>(a.index) + window * a.channels;
    const T* gy = static_cast<const T*>(a.gy) + window * a.gy_pitch;
    T* gx = row + ow * a.kernel_w * a.gx_pitch;
    const auto over = [&](auto extent) {
      each_sweep<T, 2>(
          a.channels, [&](std::int64_t c, auto n, auto part) __attribute__((always_inline)) {
            Words<T> index[n], here{};
            Wide<T> g[n];
            for (int i = 0; i < n; ++i) {
              index[i] = get_index<T>(indices + c + i * kWideLanes<T>, part);
              g[i] = get(gy + c + i * kWideLanes<T>, part);
            }
#pragma GCC unroll 2
            for (std::int64_t h = 0; h < extent.rows; ++h)
#pragma GCC unroll 2
              for (std::int64_t w = 0; w < extent.columns; ++w, here += 1) {
                Wide<T> own[n];
                for (int i = 0; i < n; ++i) own[i] = index[i] == here ? g[i] : Wide<T>{};
                put_gradients(a, gx + h * row_pitch + w * a.gx_pitch + c, own, part, stored);
              }
          });
    };
    a.kernel_h == 2 && a.kernel_w == 2 ? over(FixedExtent<2, 2>{}) : over(AnyExtent{a.kernel_h, a.kernel_w});
  }
  const auto nothing = [&](std::int64_t h, std::int64_t from_column) {
    for (std::int64_t w = from_column; w < a.width; ++w)
      each_group<T>(a.channels, [&](std::int64_t c, auto part) {
        Wide<T> zero[1] = {};
        put_gradients(a, row + h * row_pitch + w * a.gx_pitch + c, zero, part, stored);
      });
  };
  for (std::int64_t h = 0; h < a.kernel_h; ++h) nothing(h, a.out_width * a.kernel_w);
  if (oh + 1 == a.out_height)
    for (std::int64_t h = a.kernel_h; h < a.height - oh * a.kernel_h; ++h) nothing(h, 0);
}

template <class T, class I>
void max_backward_row(const MaxPool& a, std::int64_t image, std::int64_t h, AmaxObserver& amax) {
  LoopAmaxObserver stored(amax);
  // Windows [oh0, oh1) x [ow0, ow1) contain the pixel; along the row ow0 and ow1 only grow.
  const std::int64_t oh0 = std::max<std::int64_t>(0, ceil_div(h + a.padding_h - a.kernel_h + 1, a.stride_h));
  const std::int64_t oh1 = std::min(a.out_height, (h + a.padding_h) / a.stride_h + 1);
  std::int64_t ow0 = 0, ow1 = 0;
  for (std::int64_t w = 0; w < a.width; ++w) {
    while (ow1 < a.out_width && ow1 * a.stride_w - a.padding_w <= w) ++ow1;
    while (ow0 < ow1 && ow0 * a.stride_w - a.padding_w + a.kernel_w <= w) ++ow0;
    T* gx = static_cast<T*>(a.gx) + ((image * a.height + h) * a.width + w) * a.gx_pitch;
    /// Returns a function that adds to the sums of channels c the gradient of window (oh, ow) if its maximum is this
    /// pixel.
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
      Wide<T> sum[1] = {};
      for (std::int64_t oh = oh0; oh < oh1; ++oh)
        for (std::int64_t ow = ow0; ow < ow1; ++ow) sum[0] = from_window(oh, ow)(c, sum[0], part);
      put_gradients(a, gx + c, sum, part, stored);
    });
  }
}

/// Calls f(image, row, amax) for every row of `height` x `width` pixels, in parallel; f stores values of type T.
template <class T, class F>
void each_row(std::int64_t images, std::int64_t height, std::int64_t width, std::int64_t channels, F&& f) {
  parallel_for(images * height, grain_of(width, channels), [&](std::int64_t begin, std::int64_t end) {
    AmaxObserver amax(kDTypeOf<T>);
    for (std::int64_t i = begin; i < end; ++i) f(i / height, i % height, amax);
  });
}

/// Calls f(TypeTag of values, TypeTag of indices).
template <class F>
void dispatch_pool(const MaxPool& a, F&& f) {
  dispatch_float(a.dtype, "max_pool2d", [&](auto value) {
    a.index_dtype == DType::u8 ? f(value, TypeTag<std::uint8_t>{}) : f(value, TypeTag<std::int32_t>{});
  });
}

void max_forward(const MaxPool& a) {
  dispatch_pool(a, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    each_row<T>(a.images, a.out_height, a.out_width, a.channels,
                [&](std::int64_t n, std::int64_t oh, AmaxObserver& amax) { max_forward_row<T, I>(a, n, oh, amax); });
  });
}

void max_backward(const MaxPool& a) {
  dispatch_pool(a, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
    if (tiles_image(a))
      each_row<T>(a.images, a.out_height, a.width * a.kernel_h, a.channels,
                  [&](std::int64_t n, std::int64_t oh, AmaxObserver& amax) {
                    max_backward_windows<T, I>(a, n, oh, amax);
                  });
    else
      each_row<T>(a.images, a.height, a.width, a.channels,
                  [&](std::int64_t n, std::int64_t h, AmaxObserver& amax) { max_backward_row<T, I>(a, n, h, amax); });
  });
}

double divisor(const Taps& rows, const Taps& cols, std::int64_t row, std::int64_t col) {
  return rows.divisor == nullptr ? 1.0 : rows.divisor[row] * cols.divisor[col];
}

template <class T>
void resample_pixel(const Resample& a, std::int64_t image, std::int64_t oh, std::int64_t ow, AmaxObserver& amax) {
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
    put(y + c, sum, part, amax);
  });
}

void resample(const Resample& a) {
  dispatch_float(a.dtype, "resample", [&]<class T>(TypeTag<T>) {
    each_row<T>(a.images, a.out_height, a.out_width, a.channels,
                [&](std::int64_t n, std::int64_t oh, AmaxObserver& amax) {
                  for (std::int64_t ow = 0; ow < a.out_width; ++ow) resample_pixel<T>(a, n, oh, ow, amax);
                });
  });
}

}  // namespace

const PoolKernels& pool_kernels() {
  static constexpr PoolKernels kernels{&max_forward, &max_backward, &resample};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
