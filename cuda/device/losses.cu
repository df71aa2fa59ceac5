#include "binade/core/ops/formulas.h"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"
#include "binade/cuda/device/rows.cuh"

namespace binade::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 1 << 14;  // elements that one block adds up

/// Computes partial (chunks, n): for each chunk of x and t, the n sums to which terms.add(x, t, sums) adds the terms of
/// each element.
template <class Terms, class C, int V>
__global__ void __launch_bounds__(kThreads, 1) sum_chunks(In x, In t, std::int64_t count, Terms terms, C* partial) {
  for (std::int64_t b = blockIdx.x; b * kChunk < count; b += gridDim.x) {
    const std::int64_t end = (b + 1) * kChunk < count ? (b + 1) * kChunk : count;
    C sums[Terms::kSums] = {};
    std::int64_t i = b * kChunk + static_cast<std::int64_t>(threadIdx.x) * V;
    for (; i + V <= end; i += kThreads * V) {
      C from_x[V], from_t[V];
      load_vector(x, i, from_x);
      load_vector(t, i, from_t);
#pragma unroll
      for (int e = 0; e < V; ++e) terms.add(from_x[e], from_t[e], sums);
    }
    for (; i < end; ++i)
      terms.add(load_at<C>(x, i), load_at<C>(t, i), sums);  // the last elements, fewer than V, which one thread adds
#pragma unroll
    for (int s = 0; s < Terms::kSums; ++s) {
      const C sum = fold_block<Adding, kThreads>(sums[s]);
      if (threadIdx.x == 0) partial[Terms::kSums * b + s] = sum;
    }
  }
}

template <class C, int V, class Terms>
void sum_as(const Terms& terms, In x, In t, std::int64_t count, double divisor, Out y) {
  const std::int64_t chunks = ceil_div(count, kChunk);
  Buffer<C> partial(Terms::kSums * chunks);
  if (chunks > 0) launch(sum_chunks<Terms, C, V>, grid_for(chunks), kThreads, 0, x, t, count, terms, partial.data());
  run_reduce({.divisor = divisor,
              .x = {partial.data(), kDTypeOf<C>},
              .y = y,
              .groups = 2,
              .extents = {chunks, Terms::kSums},
              .reduced = {true, false}});
}

/// Computes y (Terms::kSums), the sums of all chunks divided by `divisor`.
template <class Terms>
void sum(const Terms& terms, In x, In t, std::int64_t count, double divisor, Out y) {
  if (x.dtype == DType::f64)
    sum_as<double, 1>(terms, x, t, count, divisor, y);
  else if (packs(x.data, x.dtype) && packs(t.data, t.dtype))
    sum_as<float, kPack>(terms, x, t, count, divisor, y);
  else
    sum_as<float, 1>(terms, x, t, count, divisor, y);
}

/// Adds up the values of an elementwise loss.
template <class Op>
struct LossTerms {
  static constexpr int kSums = 1;
  typename Op::Params p;
  template <class C>
  __device__ void add(C x, C t, C (&sums)[1]) const {
    sums[0] += Op::value(x, t, p);
  }
};

/// The value of each element of an elementwise loss.
template <class Op>
struct LossValue {
  typename Op::Params p;
  template <class C>
  __device__ C operator()(const C (&in)[2], std::int64_t) const {
    return static_cast<C>(Op::value(in[0], in[1], p));
  }
};

/// The gradient of each element with respect to x (kWhich = 0) or t, multiplied by the element's own gy, in[2].
template <class Op, int kWhich>
struct LossGradients {
  typename Op::Params p;
  template <class C>
  __device__ C operator()(const C (&in)[3], std::int64_t) const {
    return in[2] * (kWhich == 0 ? Op::gradient_x(in[0], in[1], p) : Op::gradient_t(in[0], in[1], p));
  }
};

/// The gradient of an elementwise loss with respect to x (kWhich = 0) or t.
template <class Op, int kWhich>
struct LossGradient {
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
void run_each(const ElementLossArgs& call) {
  const auto p = call.params.as<typename Op::Params>();
  if (call.direction == 0) return map<2>(LossValue<Op>{p}, {call.x, call.t}, call.out, flat_walk(call.count, 3));
  const Walk walk = flat_walk(call.count, 4);
  if (call.direction == 1) return map<3>(LossGradients<Op, 0>{p}, {call.x, call.t, call.gy}, call.out, walk);
  map<3>(LossGradients<Op, 1>{p}, {call.x, call.t, call.gy}, call.out, walk);
}

template <class Op>
void run_op(const ElementLossArgs& call) {
  if (call.each) return run_each<Op>(call);
  const auto p = call.params.as<typename Op::Params>();
  const Walk walk = flat_walk(call.count, 3);
  if (call.direction == 0) return sum(LossTerms<Op>{p}, call.x, call.t, call.count, call.divisor, call.out);
  if (call.direction == 1)
    return map<2>(LossGradient<Op, 0>{p, call.gy, call.divisor}, {call.x, call.t}, call.out, walk);
  map<2>(LossGradient<Op, 1>{p, call.gy, call.divisor}, {call.x, call.t}, call.out, walk);
}

struct DiceTerms {
  static constexpr int kSums = 3;  // sums of x t, of x and of t
  template <class C>
  __device__ void add(C x, C t, C (&sums)[3]) const {
    sums[0] += x * t;
    sums[1] += x;
    sums[2] += t;
  }
};

__device__ DiceFraction fraction_of(const In& sums, double smooth) {
  return {load_at<double>(sums, 0), load_at<double>(sums, 1), load_at<double>(sums, 2), smooth};
}

__global__ void dice_loss(DiceLossArgs a, std::uint32_t* words) {
  AmaxObserver amax(words, a.loss.dtype);
  if (threadIdx.x == 0) {
    const double loss = fraction_of(a.sums, a.smooth).loss();
    amax.add(static_cast<float>(loss));
    store_at(a.loss.data, a.loss.dtype, 0, loss);
  }
  amax.publish();
}

struct DiceGradient {
  In sums, gy;
  double smooth;
  double offset = 0, factor = 0;

  __device__ void prepare() {
    const DiceFraction f = fraction_of(sums, smooth);
    offset = f.offset(load_at<double>(gy, 0));
    factor = f.factor(load_at<double>(gy, 0));
  }
  template <class C>
  __device__ C operator()(const C (&other)[1], std::int64_t) const {
    return static_cast<C>(offset) - static_cast<C>(factor) * other[0];
  }
};

}  // namespace

void run_element_loss(const ElementLossArgs& call) {
  with_op(ops::ElementLosses{}, call.op, [&]<class Op>(ops::OpTag<Op>) { run_op<Op>(call); });
}

void run_dice_sums(const DiceSumsArgs& call) { sum(DiceTerms{}, call.x, call.t, call.count, 1, call.sums); }

void run_dice_loss(const DiceLossArgs& call) { launch(dice_loss, 1, kWarp, 0, call, context().amax_words); }

void run_dice_gradient(const DiceGradientArgs& call) {
  map<1>(DiceGradient{call.sums, call.gy, call.smooth}, {call.other}, call.g, flat_walk(call.count, 2));
}

}  // namespace binade::cuda
