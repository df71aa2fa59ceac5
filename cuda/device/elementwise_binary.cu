#include "binade/core/ops/formulas.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"

namespace binade::cuda {
namespace {

template <class Op>
struct Value {
  typename Op::Params p;
  template <class C>
  __device__ C operator()(const C (&x)[2], std::int64_t) const {
    return Op::value(x[0], x[1], p);
  }
};
template <class Op, int kWhich>
struct Gradient {
  typename Op::Params p;
  template <class C>
  __device__ C operator()(const C (&x)[3], std::int64_t) const {
    return kWhich == 0 ? Op::gradient_a(x[0], x[1], x[2], p) : Op::gradient_b(x[0], x[1], x[2], p);
  }
};

template <class Op>
void run_op(const BinaryArgs& call) {
  const auto p = call.params.as<typename Op::Params>();
  switch (call.direction) {
    case 0: return map<2>(Value<Op>{p}, {call.in[0], call.in[1]}, call.out, call.walk);
    case 1: return map<3>(Gradient<Op, 0>{p}, call.in, call.out, call.walk);
    default: return map<3>(Gradient<Op, 1>{p}, call.in, call.out, call.walk);
  }
}

struct Select {
  template <class C>
  __device__ C operator()(const C (&x)[3], std::int64_t) const {
    return x[0] != C(0) ? x[1] : x[2];
  }
};

}  // namespace

void run_binary(const BinaryArgs& call) {
  with_op(ops::BinaryOps{}, call.op, [&]<class Op>(ops::OpTag<Op>) { run_op<Op>(call); });
}

void run_where(const WhereArgs& call) { map<3>(Select{}, call.in, call.out, call.walk); }

}  // namespace binade::cuda
