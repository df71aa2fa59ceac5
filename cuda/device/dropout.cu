#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/live_stream.cuh"
#include "binade/cuda/device/rows.cuh"

namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// Applies dropout. A thread computes eight elements from two Philox blocks of the stream, and reads and writes kV of
/// them at a time.
template <class C, int kV>
__global__ void dropout(DropoutArgs a, const std::int64_t* step_offset, std::uint32_t* words) {
  AmaxObserver amax(words, a.y.dtype);
  const C scale = static_cast<C>(a.scale);
  const RandomStream stream = live_stream(a.stream, step_offset);
  for (std::int64_t p = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; p * kPack < a.count;
       p += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    std::uint32_t word[kPack];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::array<std::uint32_t, 4> four = stream.block(static_cast<std::uint64_t>(2 * p + half));
#pragma unroll
      for (int k = 0; k < 4; ++k) word[4 * half + k] = four[static_cast<std::size_t>(k)];
    }
    const auto some = [&]<int n>(C(&x)[n], int from) {
      const std::int64_t i = p * kPack + from;
      load_vector(a.x, i, x);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        x[k] = word[from + k] >> 8 >= a.drop ? x[k] * scale : C(0);
        amax.add(x[k]);
      }
      store_vector(a.y, i, x);
    };
    if (kV == kPack && (p + 1) * kPack <= a.count) {
      if constexpr (kV == kPack) {
        C x[kPack];
        some(x, 0);
      }
    } else {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        C x[1];
        if (p * kPack + k < a.count) some(x, k);
      }
    }
  }
  amax.publish();
}

}  // namespace

void run_dropout(const DropoutArgs& call) {
  if (call.count == 0) return;
  const unsigned grid = grid_for(ceil_div(call.count, kThreads * kPack));
  if (call.x.dtype == DType::f64 || call.y.dtype == DType::f64)
    launch(dropout<double, 1>, grid, kThreads, 0, call, context().step_offset, context().amax_words);
  else if (packs(call.x.data, call.x.dtype) && packs(call.y.data, call.y.dtype))
    launch(dropout<float, kPack>, grid, kThreads, 0, call, context().step_offset, context().amax_words);
  else
    launch(dropout<float, 1>, grid, kThreads, 0, call, context().step_offset, context().amax_words);
}

}  // namespace binade::cuda
