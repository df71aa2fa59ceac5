#include <cstring>
#include <vector>

#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/pixels.cuh"

namespace binade::cuda {
namespace {

/// The number of values in each array of taps.
struct TapCounts {
  std::int64_t outputs, taps, divisors;
};

/// The taps of rows and columns, in device memory; uploaded in one copy.
class DeviceTaps {
 public:
  explicit DeviceTaps(const Resample& a)
      : bytes_(gather(a)), buffer_(bytes_.data(), static_cast<std::int64_t>(bytes_.size())) {
    rows = placed(rows);
    cols = placed(cols);
  }
  Taps rows, cols;

 private:
  std::vector<unsigned char> gather(const Resample& a) {
    std::vector<unsigned char> bytes;
    rows = add(bytes, a.rows, {a.out_height, a.rows.begin[a.out_height], a.divide_before ? a.height : a.out_height});
    cols = add(bytes, a.cols, {a.out_width, a.cols.begin[a.out_width], a.divide_before ? a.width : a.out_width});
    return bytes;
  }
  /// Appends the arrays of `taps` to `bytes`. Until the buffer exists, the pointers are offsets plus 1.
  static Taps add(std::vector<unsigned char>& bytes, const Taps& taps, const TapCounts& counts) {
    return {append(bytes, taps.begin, counts.outputs + 1), append(bytes, taps.source, counts.taps),
            append(bytes, taps.weight, counts.taps), append(bytes, taps.divisor, counts.divisors)};
  }
  template <class V>
  static const V* append(std::vector<unsigned char>& bytes, const V* values, std::int64_t count) {
    static_assert(sizeof(V) == 8);
    if (values == nullptr) return nullptr;
    const std::size_t offset = bytes.size();
    bytes.resize(offset + static_cast<std::size_t>(count) * sizeof(V));
    if (count > 0) std::memcpy(bytes.data() + offset, values, static_cast<std::size_t>(count) * sizeof(V));
    return reinterpret_cast<const V*>(offset + 1);
  }
  template <class V>
  const V* placed(const V* offset) const {
    if (offset == nullptr) return nullptr;
    return reinterpret_cast<const V*>(buffer_.data() + (reinterpret_cast<std::uintptr_t>(offset) - 1));
  }
  Taps placed(const Taps& offsets) const {
    return {placed(offsets.begin), placed(offsets.source), placed(offsets.weight), placed(offsets.divisor)};
  }

  std::vector<unsigned char> bytes_;
  Buffer<unsigned char> buffer_;
};

/// Computes y. `a.rows` and `a.cols` must point to device memory.
template <class T, int V>
__global__ void resample(Resample a, Pixels pixels, std::uint32_t* words) {
  using C = Compute<T>;
  AmaxObserver amax(words, a.dtype);
  const bool divide = a.rows.divisor != nullptr;
  pixels.each<V>([&](std::int64_t image, std::int64_t oh, std::int64_t ow, std::int64_t c) {
    C sum[V] = {};
    for (std::int64_t i = a.rows.begin[oh]; i < a.rows.begin[oh + 1]; ++i)
      for (std::int64_t j = a.cols.begin[ow]; j < a.cols.begin[ow + 1]; ++j) {
        const std::int64_t h = a.rows.source[i], w = a.cols.source[j];
        const C weight = static_cast<C>(a.rows.weight[i] * a.cols.weight[j]);
        C x[V];
        load_vector<T>(a.x, ((image * a.height + h) * a.width + w) * a.x_pitch + c, x);
        if (divide && a.divide_before) {
          const C divisor = static_cast<C>(a.rows.divisor[h] * a.cols.divisor[w]);
#pragma unroll
          for (int e = 0; e < V; ++e) x[e] /= divisor;
        }
#pragma unroll
        for (int e = 0; e < V; ++e) sum[e] += x[e] * weight;
      }
    if (divide && !a.divide_before) {
      const C divisor = static_cast<C>(a.rows.divisor[oh] * a.cols.divisor[ow]);
#pragma unroll
      for (int e = 0; e < V; ++e) sum[e] /= divisor;
    }
#pragma unroll
    for (int e = 0; e < V; ++e) amax.add(sum[e]);
    store_vector<T>(a.y, ((image * a.out_height + oh) * a.out_width + ow) * a.channels + c, sum);
  });
  amax.publish();
}

}  // namespace

void run_resample(const Resample& call) {
  const Pixels pixels{call.images, call.out_height, call.out_width, call.channels};
  const DeviceTaps taps(call);
  Resample placed = call;
  placed.rows = taps.rows;
  placed.cols = taps.cols;
  const bool packed = call.channels % kPack == 0 && packs_rows(call.x, call.dtype, call.x_pitch) &&
                      packs_rows(call.y, call.dtype, 0);
  with_vectors(call.dtype, packed, [&]<class T, int V>(TypeTag<T>, std::integral_constant<int, V>) {
    launch(resample<T, V>, pixels.grid(V), Pixels::kThreads, 0, placed, pixels, context().amax_words);
  });
}

}  // namespace binade::cuda
