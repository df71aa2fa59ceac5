#include <cstring>

#include "core/ops/lists.h"
#include "cuda/device/calls.cuh"
#include "cuda/device/map.cuh"

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
void run_op(const UnaryCall& call) {
  typename Op::Params p;
  std::memcpy(&p, call.params, sizeof p);
  if (call.backward)
    map<2>(Gradient<Op>{p}, call.in, call.out, call.walk);
  else
    map<1>(Value<Op>{p}, {call.in[0]}, call.out, call.walk);
}

template <class... Ops>
void run_op_at(ops::OpList<Ops...>, const UnaryCall& call) {
  using Run = void (*)(const UnaryCall&);
  static constexpr Run runs[] = {&run_op<Ops>...};
  runs[call.op](call);
}

}  // namespace

void run_unary(const UnaryCall& call) { run_op_at(ops::UnaryOps{}, call); }

}  // namespace binade::cuda
