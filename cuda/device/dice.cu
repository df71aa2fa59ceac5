#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"
#include "binade/cuda/device/rows.cuh"

namespace binade::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 1 << 14;  // elements that one block adds up

/// partial (chunks, 3): sums of x t, x and t.
template <class C, int V>
__global__ void __launch_bounds__(kThreads) sum_chunks(In x, In t, std::int64_t count, C* partial) {
  for (std::int64_t b = blockIdx.x; b * kChunk < count; b += gridDim.x) {
    const std::int64_t end = (b + 1) * kChunk < count ? (b + 1) * kChunk : count;
    C sums[3] = {};
    const auto add = [&](C from_x, C from_t) {
      sums[0] += from_x * from_t;
      sums[1] += from_x;
      sums[2] += from_t;
    };
    std::int64_t i = b * kChunk + static_cast<std::int64_t>(threadIdx.x) * V;
    for (; i + V <= end; i += kThreads * V) {
      C from_x[V], from_t[V];
      load_vector(x, i, from_x);
      load_vector(t, i, from_t);
#pragma unroll
      for (int e = 0; e < V; ++e) add(from_x[e], from_t[e]);
    }
    for (; i < end; ++i) add(load_at<C>(x, i), load_at<C>(t, i));
#pragma unroll
    for (int s = 0; s < 3; ++s) {
      const C sum = fold_block<Adding, kThreads>(sums[s]);
      if (threadIdx.x == 0) partial[3 * b + s] = sum;
    }
  }
}

template <class C, int V>
void sum(const DiceSumsArgs& call) {
  const std::int64_t chunks = ceil_div(call.count, kChunk);
  Buffer<C> partial(3 * chunks);
  if (chunks > 0) launch(sum_chunks<C, V>, grid_for(chunks), kThreads, 0, call.x, call.t, call.count, partial.data());
  run_reduce({.x = {partial.data(), kDTypeOf<C>},
              .y = call.sums,
              .groups = 2,
              .extents = {chunks, 3},
              .reduced = {true, false}});
}

/// The two sides of the fraction, in double as everywhere.
struct Fraction {
  double n, d;
  __device__ Fraction(const In& sums, double smooth)
      : n(2 * load_at<double>(sums, 0) + smooth), d(load_at<double>(sums, 1) + load_at<double>(sums, 2) + smooth) {}
};

__global__ void loss(DiceLossArgs a, std::uint32_t* words) {
  AmaxObserver amax(words, a.loss.dtype);
  if (threadIdx.x == 0) {
    const Fraction f(a.sums, a.smooth);
    const double loss = 1 - f.n / f.d;
    amax.add(static_cast<float>(loss));
    store_at(a.loss.data, a.loss.dtype, 0, loss);
  }
  amax.publish();
}

struct Gradient {
  In sums, gy;
  double smooth;
  double offset = 0, factor = 0;

  __device__ void prepare() {
    const Fraction f(sums, smooth);
    const double g = load_at<double>(gy, 0);
    offset = g * f.n / f.d / f.d;
    factor = 2 * g / f.d;
  }
  template <class C>
  __device__ C operator()(const C (&other)[1], std::int64_t) const {
    return static_cast<C>(offset) - static_cast<C>(factor) * other[0];
  }
};

}  // namespace

void run_dice_sums(const DiceSumsArgs& call) {
  if (call.x.dtype == DType::f64)
    sum<double, 1>(call);
  else if (packs(call.x.data, call.x.dtype) && packs(call.t.data, call.t.dtype))
    sum<float, kPack>(call);
  else
    sum<float, 1>(call);
}

void run_dice_loss(const DiceLossArgs& call) { launch(loss, 1, kWarp, 0, call, context().amax_words); }

void run_dice_gradient(const DiceGradientArgs& call) {
  map<1>(Gradient{call.sums, call.gy, call.smooth}, {call.other}, call.g, flat_walk(call.count, 2));
}

}  // namespace binade::cuda
