#include "binade/core/ops/formulas.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"

namespace binade::cuda {
namespace {

template <class Op>
struct Value {
  typename Op::Params p;
  template <class C>
  __device__ C operator()(const C (&x)[1], std::int64_t) const {
    return Op::value(x[0], p);
  }
};
template <class Op>
struct Gradient {
  typename Op::Params p;
  template <class C>
  __device__ C operator()(const C (&x)[2], std::int64_t) const {
    return Op::gradient(x[0], x[1], p);
  }
};

template <class Op>
void run_op(const UnaryArgs& call) {
  const auto p = call.params.as<typename Op::Params>();
  if (call.backward)
    map<2>(Gradient<Op>{p}, call.in, call.out, call.walk);
  else
    map<1>(Value<Op>{p}, {call.in[0]}, call.out, call.walk);
}

}  // namespace

void run_unary(const UnaryArgs& call) {
  with_op(ops::UnaryOps{}, call.op, [&]<class Op>(ops::OpTag<Op>) { run_op<Op>(call); });
}

}  // namespace binade::cuda
