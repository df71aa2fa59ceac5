#include "binade/core/ops/formulas.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"

/// Rare ops (core/ops/lists.h), computed in double for every dtype and rounded once (decision 0065).
namespace binade::cuda {
namespace {

template <class Op>
struct UnaryValue {
  typename Op::Params p;
  __device__ double operator()(const double (&x)[1], std::int64_t) const { return Op::value(x[0], p); }
};
template <class Op>
struct UnaryGradient {
  typename Op::Params p;
  __device__ double operator()(const double (&x)[2], std::int64_t) const { return Op::gradient(x[0], x[1], p); }
};
template <class Op>
struct BinaryValue {
  typename Op::Params p;
  __device__ double operator()(const double (&x)[2], std::int64_t) const { return Op::value(x[0], x[1], p); }
};
template <class Op, int kWhich>
struct BinaryGradient {
  typename Op::Params p;
  __device__ double operator()(const double (&x)[3], std::int64_t) const {
    return kWhich == 0 ? Op::gradient_a(x[0], x[1], x[2], p) : Op::gradient_b(x[0], x[1], x[2], p);
  }
};

}  // namespace

void run_rare_unary(const UnaryArgs& call) {
  with_op(ops::RareUnaryOps{}, call.op, [&]<class Op>(ops::OpTag<Op>) {
    const auto p = call.params.as<typename Op::Params>();
    if (call.backward)
      map_in_double<2>(UnaryGradient<Op>{p}, call.in, call.out, call.walk);
    else
      map_in_double<1>(UnaryValue<Op>{p}, {call.in[0]}, call.out, call.walk);
  });
}

void run_rare_binary(const BinaryArgs& call) {
  with_op(ops::RareBinaryOps{}, call.op, [&]<class Op>(ops::OpTag<Op>) {
    const auto p = call.params.as<typename Op::Params>();
    switch (call.direction) {
      case 0: return map_in_double<2>(BinaryValue<Op>{p}, {call.in[0], call.in[1]}, call.out, call.walk);
      case 1: return map_in_double<3>(BinaryGradient<Op, 0>{p}, call.in, call.out, call.walk);
      default: return map_in_double<3>(BinaryGradient<Op, 1>{p}, call.in, call.out, call.walk);
    }
  });
}

}  // namespace binade::cuda
