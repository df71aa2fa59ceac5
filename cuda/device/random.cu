#include "binade/core/kernels/random.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/live_stream.cuh"
#include "binade/cuda/device/value.cuh"

namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void random(RandomArgs a, const std::int64_t* step_offset) {
  const RandomStream stream = live_stream(a.stream, step_offset);
  each_index(a.count, [&](std::int64_t i) {
    if (a.distribution == Distribution::kBelow) {
      const std::int64_t whole = random_numbers::element_below(a, stream, i);
      if (is_floating(a.out.dtype))
        store_at(a.out.data, a.out.dtype, i, static_cast<double>(whole));
      else
        store_at(a.out.data, a.out.dtype, i, whole);
      return;
    }
    const double p = a.p.data != nullptr ? load_at<double>(a.p, i) : a.a;
    store_at(a.out.data, a.out.dtype, i, random_numbers::element(a, stream, i, p));
  });
}

}  // namespace

void run_random(const RandomArgs& call) {
  if (call.count == 0) return;
  launch(random, grid_for(ceil_div(call.count, kThreads)), kThreads, 0, call, context().step_offset);
}

}  // namespace binade::cuda
