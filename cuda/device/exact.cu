#include "binade/core/ops/formulas.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"

namespace binade::cuda {
namespace {

template <class Formula, class C>
__global__ void exact(In a, In b, Out y, WalkVectors elements) {
  each_index(elements.count, [&](std::int64_t i) {
    std::int64_t at[3];
    elements.offsets(i, at);
    store_at(y.data, y.dtype, at[2], Formula::of(load_at<C>(a, at[0]), load_at<C>(b, at[1])));
  });
}

template <class Formula, class C>
void run(const ExactArgs& call) {
  const std::int64_t count = call.walk.runs * call.walk.length;
  if (count == 0) return;
  launch(exact<Formula, C>, grid_for(ceil_div(count, kMapThreads)), kMapThreads, 0, call.in[0], call.in[1], call.out,
         WalkVectors(call.walk, 1));
}

}  // namespace

void run_exact(const ExactArgs& call) {
  with_op(ops::ExactOps{}, call.op, [&]<class Formula>(ops::OpTag<Formula>) {
    if (call.whole) return run<Formula, std::int64_t>(call);
    if constexpr (ops::exact::kOfReals<Formula>) run<Formula, double>(call);
  });
}

}  // namespace binade::cuda
