#pragma once

#include "cuda/device/context.cuh"
#include "cuda/device/seen.cuh"
#include "cuda/device/value.cuh"

/// Kernels that compute every element from the elements of their inputs at the same place: what elementwise ops, casts,
/// masks and most derivatives are. Compute in C, read and write any floating dtype, bandwidth-bound: 16-byte accesses
/// where everybody walks in step.
namespace binade::cuda {

template <int kInputs>
struct MapInputs {
  Source in[kInputs];
};

/// Where operand `which` of element i lies.
__device__ __forceinline__ std::int64_t place(const Walk& walk, int which, std::int64_t i) {
  std::int64_t run = i / walk.length;
  std::int64_t at = (i - run * walk.length) * walk.steps[which];
  for (int d = 0; d < walk.outer; ++d) {
    const std::int64_t next = run / walk.extents[d];
    at += (run - next * walk.extents[d]) * walk.strides[d][which];
    run = next;
  }
  return at;
}

/// Lets a functor read what it needs from device memory, once a thread.
template <class F>
__device__ __forceinline__ void prepare(F& f) {
  if constexpr (requires { f.prepare(); }) f.prepare();
}

/// f(x, i) with x the inputs' values and i the element's number; C(...) results.
template <class C, int kInputs, class F>
__global__ void map_walk(F f, MapInputs<kInputs> inputs, Target out, Walk walk, std::uint32_t* words) {
  Seen seen(words, out.dtype);
  prepare(f);
  const std::int64_t count = walk.runs * walk.length;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    C x[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) x[k] = load_at<C>(inputs.in[k], place(walk, k, i));
    const C y = static_cast<C>(f(x, i));
    seen.add(y);
    store_at(out.data, out.dtype, place(walk, kInputs, i), y);
  }
  seen.publish();
}

/// The same where all operands are flat: packs of 8, the rest one by one.
template <int kInputs, class F>
__global__ void map_flat(F f, MapInputs<kInputs> inputs, Target out, std::int64_t count, std::uint32_t* words) {
  Seen seen(words, out.dtype);
  prepare(f);
  const std::int64_t thread = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t whole = count / kPack;
  for (std::int64_t p = thread; p < whole; p += threads) {
    float x[kInputs][kPack], y[kPack];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) load_pack(inputs.in[k].data, inputs.in[k].dtype, p * kPack, x[k]);
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      float one[kInputs];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) one[k] = x[k][e];
      y[e] = static_cast<float>(f(one, p * kPack + e));
      seen.add(y[e]);
    }
    store_pack(out.data, out.dtype, p * kPack, y);
  }
  for (std::int64_t i = whole * kPack + thread; i < count; i += threads) {
    float one[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) one[k] = load_at<float>(inputs.in[k], i);
    const float y = static_cast<float>(f(one, i));
    seen.add(y);
    store_at(out.data, out.dtype, i, y);
  }
  seen.publish();
}

/// Whether every operand of `walk` lies in one straight run.
inline bool is_flat(const Walk& walk, int operands) {
  if (walk.runs != 1) return false;
  for (int i = 0; i < operands; ++i)
    if (walk.steps[i] != 1) return false;
  return true;
}

/// out[i] = f(inputs at i, i), in double where `out` or an input is f64, else in float. Results are observed in
/// `words`; null: not.
template <int kInputs, class F>
void map(const F& f, const Source (&in)[kInputs], Target out, const Walk& walk, std::uint32_t* words = context().seen) {
  constexpr int kThreads = 256;
  const std::int64_t count = walk.runs * walk.length;
  if (count == 0) return;
  MapInputs<kInputs> inputs;
  bool wide = out.dtype == DType::f64, packed = packs(out.data, out.dtype) && is_flat(walk, kInputs + 1);
  for (int k = 0; k < kInputs; ++k) {
    inputs.in[k] = in[k];
    wide = wide || in[k].dtype == DType::f64;
    packed = packed && packs(in[k].data, in[k].dtype);
  }
  if (wide)
    launch(map_walk<double, kInputs, F>, grid_for(ceil_div(count, kThreads)), kThreads, 0, f, inputs, out, walk, words);
  else if (packed)
    launch(map_flat<kInputs, F>, grid_for(ceil_div(count, kThreads * kPack)), kThreads, 0, f, inputs, out, count,
           words);
  else
    launch(map_walk<float, kInputs, F>, grid_for(ceil_div(count, kThreads)), kThreads, 0, f, inputs, out, walk, words);
}

/// A walk over `count` neighbors, for operands that are all flat.
inline Walk flat_walk(std::int64_t count, int operands) {
  Walk walk{.runs = count > 0 ? 1 : 0, .length = count};
  for (int i = 0; i < operands; ++i) walk.steps[i] = 1;
  return walk;
}

/// A walk over rows of `cols` elements that lie pitches[i] apart for operand i.
template <int kOperands>
Walk row_walk(std::int64_t rows, std::int64_t cols, const std::int64_t (&pitches)[kOperands]) {
  bool flat = true;
  for (const std::int64_t pitch : pitches) flat = flat && (pitch == cols || rows <= 1);
  if (flat) return flat_walk(rows * cols, kOperands);
  Walk walk{.runs = rows, .length = cols, .outer = 1, .extents = {rows}};
  for (int i = 0; i < kOperands; ++i) {
    walk.steps[i] = 1;
    walk.strides[0][i] = pitches[i];
  }
  return walk;
}

}  // namespace binade::cuda
