#include "binade/core/math.h"
#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/rows.cuh"

namespace binade::cuda {
namespace {

template <class C, int V, int H>
__global__ void __launch_bounds__(H == 0 ? 1024 : 512, 1)
    softmax_forward(SoftmaxArgs a, int width, std::uint32_t* words) {
  __shared__ C scratch[ThreadGroup<C>::kScratch];
  ThreadGroup<C> group(width, scratch);
  AmaxObserver amax(words, a.y.dtype);
  group.each_row(a.rows, a.cols, [&](std::int64_t row, std::int64_t cols) {
    C x[H > 0 ? H : 1][V];
    C max[1] = {Largest::kStart<C>}, sum[1] = {};
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      load_vector(a.x, row * a.pitch + c, x[k]);
#pragma unroll
      for (int e = 0; e < V; ++e) max[0] = Largest::combine(max[0], x[k][e]);
    });
    group.template fold<Largest>(max);
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      if constexpr (H == 0) load_vector(a.x, row * a.pitch + c, x[k]);
#pragma unroll
      for (int e = 0; e < V; ++e) sum[0] += math::exp(x[k][e] - max[0]);
    });
    group.sum(sum);
    const C log_sum = math::log(sum[0]);
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      if constexpr (H == 0) load_vector(a.x, row * a.pitch + c, x[k]);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C below = x[k][e] - max[0];
        x[k][e] = a.log ? below - log_sum : math::exp(below) / sum[0];
        amax.add(x[k][e]);
      }
      store_vector(a.y, row * a.cols + c, x[k]);
    });
  });
  amax.publish();
}

template <class C, int V, int H>
__global__ void __launch_bounds__(H == 0 ? 1024 : 512, 1)
    softmax_backward(SoftmaxArgs a, int width, std::uint32_t* words) {
  __shared__ C scratch[ThreadGroup<C>::kScratch];
  ThreadGroup<C> group(width, scratch);
  AmaxObserver amax(words, a.y.dtype);
  group.each_row(a.rows, a.cols, [&](std::int64_t row, std::int64_t cols) {
    C y[H > 0 ? H : 1][V], gy[H > 0 ? H : 1][V];
    const auto load = [&](std::int64_t c, int k) {
      load_vector(a.x, row * a.pitch + c, y[k]);
      load_vector(a.gy, row * a.cols + c, gy[k]);
    };
    C sum[1] = {};
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      load(c, k);
#pragma unroll
      for (int e = 0; e < V; ++e) sum[0] += a.log ? gy[k][e] : gy[k][e] * y[k][e];
    });
    group.sum(sum);
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      if constexpr (H == 0) load(c, k);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        y[k][e] = a.log ? gy[k][e] - math::exp(y[k][e]) * sum[0] : y[k][e] * (gy[k][e] - sum[0]);
        amax.add(y[k][e]);
      }
      store_vector(a.y, row * a.cols + c, y[k]);
    });
  });
  amax.publish();
}

template <class C, int V, int H>
void start(const SoftmaxArgs& call, const RowGroups& groups) {
  launch(call.backward ? softmax_backward<C, V, H> : softmax_forward<C, V, H>,
         grid_for(ceil_div(call.rows, groups.count())), static_cast<unsigned>(groups.threads), 0, call, groups.width,
         context().amax_words);
}

}  // namespace

void run_softmax(const SoftmaxArgs& call) {
  if (call.rows * call.cols == 0) return;
  const RowLaunch rows(call.cols, packs_rows(call.x.data, call.x.dtype, call.pitch) &&
                                      packs(call.y.data, call.y.dtype) &&
                                      (!call.backward || packs(call.gy.data, call.gy.dtype)));
  if (call.x.dtype == DType::f64 || call.y.dtype == DType::f64)
    return start<double, 1, 0>(call, RowLaunch(call.cols, false).groups);
  if (rows.held) return start<float, kPack, RowLaunch::kHeld>(call, rows.groups);
  if (rows.packed) return start<float, kPack, 0>(call, rows.groups);
  start<float, 1, 0>(call, rows.groups);
}

}  // namespace binade::cuda
