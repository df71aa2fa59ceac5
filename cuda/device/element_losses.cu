#include "binade/core/ops/formulas.h"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"
#include "binade/cuda/device/rows.cuh"

namespace binade::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 1 << 14;  // elements that one block adds up

/// partial[b] = the sum of value(x, t) over chunk b.
template <class Op, class C, int V>
__global__ void __launch_bounds__(kThreads, 1)
    sum_chunks(In x, In t, std::int64_t count, typename Op::Params p, C* partial) {
  for (std::int64_t b = blockIdx.x; b * kChunk < count; b += gridDim.x) {
    const std::int64_t end = (b + 1) * kChunk < count ? (b + 1) * kChunk : count;
    C sum = 0;
    std::int64_t i = b * kChunk + static_cast<std::int64_t>(threadIdx.x) * V;
    for (; i + V <= end; i += kThreads * V) {
      C from_x[V], from_t[V];
      load_vector(x, i, from_x);
      load_vector(t, i, from_t);
#pragma unroll
      for (int e = 0; e < V; ++e) sum += Op::value(from_x[e], from_t[e], p);
    }
    for (; i < end; ++i) sum += Op::value(load_at<C>(x, i), load_at<C>(t, i), p);  // less than V are left to one thread
    sum = fold_block<Adding, kThreads>(sum);
    if (threadIdx.x == 0) partial[b] = sum;
  }
}

template <class Op, class C, int V>
void forward_as(const ElementLossArgs& call, const typename Op::Params& p) {
  const std::int64_t chunks = ceil_div(call.count, kChunk);
  Buffer<C> partial(chunks);
  if (chunks > 0)
    launch(sum_chunks<Op, C, V>, grid_for(chunks), kThreads, 0, call.x, call.t, call.count, p, partial.data());
  run_reduce({.divisor = call.divisor,
              .x = {partial.data(), kDTypeOf<C>},
              .y = call.out,
              .groups = 1,
              .extents = {chunks},
              .reduced = {true}});
}

template <class Op, int kWhich>
struct Gradient {
  typename Op::Params p;
  In gy;
  double divisor;
  double scale = 0;

  __device__ void prepare() { scale = load_at<double>(gy, 0) / divisor; }
  template <class C>
  __device__ C operator()(const C (&in)[2], std::int64_t) const {
    return static_cast<C>(scale) * (kWhich == 0 ? Op::gradient_x(in[0], in[1], p) : Op::gradient_t(in[0], in[1], p));
  }
};

template <class Op>
void run_op(const ElementLossArgs& call) {
  const auto p = call.params.as<typename Op::Params>();
  const Walk walk = flat_walk(call.count, 3);
  if (call.direction == 1) return map<2>(Gradient<Op, 0>{p, call.gy, call.divisor}, {call.x, call.t}, call.out, walk);
  if (call.direction == 2) return map<2>(Gradient<Op, 1>{p, call.gy, call.divisor}, {call.x, call.t}, call.out, walk);
  if (call.x.dtype == DType::f64) return forward_as<Op, double, 1>(call, p);
  if (packs(call.x.data, call.x.dtype) && packs(call.t.data, call.t.dtype))
    return forward_as<Op, float, kPack>(call, p);
  forward_as<Op, float, 1>(call, p);
}

}  // namespace

void run_element_loss(const ElementLossArgs& call) {
  with_op(ops::ElementLosses{}, call.op, [&]<class Op>(ops::OpTag<Op>) { run_op<Op>(call); });
}

}  // namespace binade::cuda
