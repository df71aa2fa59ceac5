#include <limits>

#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/pixels.cuh"

namespace binade::cuda {
namespace {

/// Stores V positions of maxima, as indices within their windows, in u8 or i32.
template <int V>
__device__ __forceinline__ void store_index(void* index, DType dtype, std::int64_t at, const int (&taken)[V]) {
  if (dtype == DType::i32) {
#pragma unroll
    for (int e = 0; e < V; ++e) static_cast<std::int32_t*>(index)[at + e] = taken[e];
  } else if constexpr (V == 1) {
    static_cast<std::uint8_t*>(index)[at] = static_cast<std::uint8_t>(taken[0]);
  } else {
    static_assert(V == 8);
    std::uint64_t all = 0;
#pragma unroll
    for (int e = 0; e < V; ++e) all |= static_cast<std::uint64_t>(taken[e] & 0xff) << (8 * e);
    *reinterpret_cast<std::uint64_t*>(static_cast<std::uint8_t*>(index) + at) = all;
  }
}
template <int V>
__device__ __forceinline__ void load_index(const void* index, DType dtype, std::int64_t at, int (&taken)[V]) {
  if (dtype == DType::i32) {
#pragma unroll
    for (int e = 0; e < V; ++e) taken[e] = static_cast<const std::int32_t*>(index)[at + e];
  } else if constexpr (V == 1) {
    taken[0] = static_cast<const std::uint8_t*>(index)[at];
  } else {
    static_assert(V == 8);
    const std::uint64_t all = *reinterpret_cast<const std::uint64_t*>(static_cast<const std::uint8_t*>(index) + at);
#pragma unroll
    for (int e = 0; e < V; ++e) taken[e] = static_cast<int>(all >> (8 * e) & 0xff);
  }
}

template <class T, int V>
__global__ void forward(MaxPool a, Pixels pixels, std::uint32_t* words) {
  using C = Compute<T>;
  AmaxObserver amax(words, a.dtype);
  pixels.each<V>([&](std::int64_t image, std::int64_t oh, std::int64_t ow, std::int64_t c) {
    const std::int64_t top = oh * a.stride_h - a.padding_h, left = ow * a.stride_w - a.padding_w;
    const std::int64_t h0 = top > 0 ? top : 0, h1 = top + a.kernel_h < a.height ? top + a.kernel_h : a.height;
    const std::int64_t w0 = left > 0 ? left : 0, w1 = left + a.kernel_w < a.width ? left + a.kernel_w : a.width;
    C best[V];
    int taken[V];
#pragma unroll
    for (int e = 0; e < V; ++e) {
      best[e] = -std::numeric_limits<C>::infinity();
      taken[e] = static_cast<int>((h0 - top) * a.kernel_w + w0 - left);
    }
    for (std::int64_t h = h0; h < h1; ++h)
      for (std::int64_t w = w0; w < w1; ++w) {
        C x[V];
        load_vector<T>(a.x, ((image * a.height + h) * a.width + w) * a.x_pitch + c, x);
        const int here = static_cast<int>((h - top) * a.kernel_w + w - left);
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const bool take = x[e] > best[e] ||
                            x[e] != x[e];  // a NaN is taken, and then stays, since no value compares as larger
          best[e] = take ? x[e] : best[e];
          taken[e] = take ? here : taken[e];
        }
      }
    const std::int64_t out = ((image * a.out_height + oh) * a.out_width + ow) * a.channels + c;
#pragma unroll
    for (int e = 0; e < V; ++e) amax.add(best[e]);
    store_vector<T>(a.y, out, best);
    if (a.index != nullptr) store_index(a.index, a.index_dtype, out, taken);
  });
  amax.publish();
}

/// Returns the index of the first window that contains position `at`. Windows have `kernel` pixels and begin `stride`
/// pixels apart.
__device__ std::int64_t first_window(std::int64_t at, std::int64_t kernel, std::int64_t stride) {
  return at < kernel ? 0 : (at - kernel) / stride + 1;
}

template <class T, int V>
__global__ void backward(MaxPool a, Pixels pixels, std::uint32_t* words) {
  using C = Compute<T>;
  AmaxObserver amax(words, a.dtype);
  pixels.each<V>([&](std::int64_t image, std::int64_t h, std::int64_t w, std::int64_t c) {
    const std::int64_t y = h + a.padding_h, x = w + a.padding_w;  // in the padded image
    const std::int64_t oh0 = first_window(y, a.kernel_h, a.stride_h), ow0 = first_window(x, a.kernel_w, a.stride_w);
    const std::int64_t oh1 = y / a.stride_h + 1 < a.out_height ? y / a.stride_h + 1 : a.out_height;
    const std::int64_t ow1 = x / a.stride_w + 1 < a.out_width ? x / a.stride_w + 1 : a.out_width;
    C sum[V] = {};
    for (std::int64_t oh = oh0; oh < oh1; ++oh)
      for (std::int64_t ow = ow0; ow < ow1; ++ow) {
        const std::int64_t window = (image * a.out_height + oh) * a.out_width + ow;
        const int here = static_cast<int>((y - oh * a.stride_h) * a.kernel_w + x - ow * a.stride_w);
        int taken[V];
        C gy[V];
        load_index(a.index, a.index_dtype, window * a.channels + c, taken);
        load_vector<T>(a.gy, window * a.gy_pitch + c, gy);
#pragma unroll
        for (int e = 0; e < V; ++e) sum[e] = taken[e] == here ? sum[e] + gy[e] : sum[e];
      }
    const std::int64_t at = ((image * a.height + h) * a.width + w) * a.gx_pitch + c;
    if (a.accumulate) {
      C current[V];
      load_vector<T>(a.gx, at, current);
#pragma unroll
      for (int e = 0; e < V; ++e) sum[e] = current[e] + rounded<T>(sum[e]);
    }
#pragma unroll
    for (int e = 0; e < V; ++e) amax.add(sum[e]);
    store_vector<T>(a.gx, at, sum);
  });
  amax.publish();
}

bool packed(const MaxPool& a) {
  return a.channels % kPack == 0 && packs_rows(a.x, a.dtype, a.x_pitch) && packs_rows(a.y, a.dtype, 0) &&
         packs_rows(a.gy, a.dtype, a.gy_pitch) && packs_rows(a.gx, a.dtype, a.gx_pitch) &&
         packs_rows(a.index, DType::f32, 0);
}

}  // namespace

void run_max_pool_forward(const MaxPool& call) {
  const Pixels pixels{call.images, call.out_height, call.out_width, call.channels};
  with_vectors(call.dtype, packed(call), [&]<class T, int V>(TypeTag<T>, std::integral_constant<int, V>) {
    launch(forward<T, V>, pixels.grid(V), Pixels::kThreads, 0, call, pixels, context().amax_words);
  });
}

void run_max_pool_backward(const MaxPool& call) {
  const Pixels pixels{call.images, call.height, call.width, call.channels};
  with_vectors(call.dtype, packed(call), [&]<class T, int V>(TypeTag<T>, std::integral_constant<int, V>) {
    launch(backward<T, V>, pixels.grid(V), Pixels::kThreads, 0, call, pixels, context().amax_words);
  });
}

}  // namespace binade::cuda
