#include "binade/core/ops/formulas.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"

/// Rare ops (core/ops/lists.h), computed in double for every dtype and rounded once.
namespace binade::cuda {
namespace {

/// Calls `formula`, which computes in double, for operands of type C. A float that becomes a half is rounded to odd, so
/// that the result equals a single rounding.
template <class F>
struct InDouble {
  F formula;
  bool to_half;
  template <class C, int kInputs>
  __device__ C operator()(const C (&x)[kInputs], std::int64_t) const {
    double wide[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) wide[k] = static_cast<double>(x[k]);
    const double y = formula(wide);
    if constexpr (std::is_same_v<C, float>)
      return to_half ? rounded_to_odd(y) : static_cast<float>(y);
    else
      return y;
  }
};

template <class Op>
struct UnaryValue {
  typename Op::Params p;
  __device__ double operator()(const double (&x)[1]) const { return Op::value(x[0], p); }
};
template <class Op>
struct UnaryGradient {
  typename Op::Params p;
  __device__ double operator()(const double (&x)[2]) const { return Op::gradient(x[0], x[1], p); }
};
template <class Op>
struct BinaryValue {
  typename Op::Params p;
  __device__ double operator()(const double (&x)[2]) const { return Op::value(x[0], x[1], p); }
};
template <class Op, int kWhich>
struct BinaryGradient {
  typename Op::Params p;
  __device__ double operator()(const double (&x)[3]) const {
    return kWhich == 0 ? Op::gradient_a(x[0], x[1], x[2], p) : Op::gradient_b(x[0], x[1], x[2], p);
  }
};

template <int kInputs, class F, class Args>
void map_rare(const F& formula, const In (&in)[kInputs], const Args& call) {
  map<kInputs>(InDouble<F>{formula, is_half(call.out.dtype)}, in, call.out, call.walk, context().amax_words, true);
}

}  // namespace

void run_rare_unary(const UnaryArgs& call) {
  with_op(ops::RareUnaryOps{}, call.op, [&]<class Op>(ops::OpTag<Op>) {
    const auto p = call.params.as<typename Op::Params>();
    if (call.backward)
      map_rare<2>(UnaryGradient<Op>{p}, call.in, call);
    else
      map_rare<1>(UnaryValue<Op>{p}, {call.in[0]}, call);
  });
}

void run_rare_binary(const BinaryArgs& call) {
  with_op(ops::RareBinaryOps{}, call.op, [&]<class Op>(ops::OpTag<Op>) {
    const auto p = call.params.as<typename Op::Params>();
    switch (call.direction) {
      case 0: return map_rare<2>(BinaryValue<Op>{p}, {call.in[0], call.in[1]}, call);
      case 1: return map_rare<3>(BinaryGradient<Op, 0>{p}, call.in, call);
      default: return map_rare<3>(BinaryGradient<Op, 1>{p}, call.in, call);
    }
  });
}

}  // namespace binade::cuda
