#include "cuda/device/calls.cuh"
#include "cuda/device/map.cuh"

namespace binade::cuda {
namespace {

struct Same {
  template <class C>
  __device__ C operator()(const C (&x)[1], std::int64_t) const {
    return x[0];
  }
};
struct Constant {
  double value;
  template <class C>
  __device__ C operator()(const C (&)[1], std::int64_t) const {
    return static_cast<C>(value);
  }
};

struct Sum {
  template <class C>
  __device__ C operator()(const C (&x)[2], std::int64_t) const {
    return x[0] + x[1];
  }
};

/// Whole numbers to whole numbers and to f64: nothing passes through a float.
__global__ void convert_whole(TensorRows to, TensorRows from, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < rows * cols;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::int64_t r = i / cols, c = i - r * cols;
    const auto x = load_at<std::int64_t>(from.data, from.dtype, r * from.pitch + c);
    store_at(to.data, to.dtype, r * to.pitch + c, x);
  }
}

__global__ void observe_values(Source x, std::int64_t count, std::uint32_t* words) {
  Seen seen(words, x.dtype);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    seen.add(load_at<float>(x, i));
  seen.publish();
}

}  // namespace

void run_convert(const ConvertCall& call) {
  if (call.rows * call.cols == 0) return;
  const bool whole = !is_floating(call.from.dtype) && call.to.dtype != DType::f32 && !is_half(call.to.dtype);
  if (whole)
    return launch(convert_whole, grid_for(ceil_div(call.rows * call.cols, 256)), 256, 0, call.to, call.from, call.rows,
                  call.cols);
  // A move is not observed: its values were there before.
  map<1>(Same{}, {Source{call.from.data, call.from.dtype}}, {call.to.data, call.to.dtype},
         row_walk(call.rows, call.cols, {call.from.pitch, call.to.pitch}),
         call.from.dtype == call.to.dtype ? nullptr : context().seen);
}

void run_fill(const FillCall& call) {
  const Source any{call.to.data, call.to.dtype};  // read and not looked at: a fill is a map of one input
  map<1>(Constant{call.value}, {any}, {call.to.data, call.to.dtype},
         row_walk(call.rows, call.cols, {call.to.pitch, call.to.pitch}), nullptr);
}

void run_accumulate(const AccumulateCall& call) {
  map<2>(Sum{}, {Source{call.into.data, call.into.dtype}, Source{call.from.data, call.from.dtype}},
         {call.into.data, call.into.dtype},
         row_walk(call.rows, call.cols, {call.into.pitch, call.from.pitch, call.into.pitch}));
}

void run_observe(const ObserveCall& call) {
  if (call.count == 0) return;
  launch(observe_values, grid_for(ceil_div(call.count, 256)), 256, 0, Source{call.values, call.dtype}, call.count,
         context().seen);
}

}  // namespace binade::cuda
