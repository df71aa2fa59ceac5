#pragma once

#include <algorithm>
#include <bit>

#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/value.cuh"

/// Kernels that compute every element from the elements of their inputs at the same position: elementwise ops, casts,
/// masks and most derivatives. They compute in C, read and write any floating dtype, and are bandwidth-bound: 16-byte
/// accesses if all operands are contiguous.
namespace binade::cuda {

inline constexpr int kMapThreads = 256;  ///< threads of a block

/// The inputs of a kernel, as an argument that can be passed by value.
template <int kInputs>
struct MapInputs {
  In in[kInputs];
};

/// A divisor that is prepared on the host, so that kernels divide numbers below 2^31 by a multiplication and a shift.
struct Divisor {
  std::int64_t value = 1;
  std::uint32_t factor = 0, shift = 0;

  Divisor() = default;
  explicit Divisor(std::int64_t by) : value(by) {
    if (by >> 31 != 0) return;
    while (std::int64_t{1} << shift < by) ++shift;
    factor = static_cast<std::uint32_t>(
        (((std::uint64_t{1} << shift) - static_cast<std::uint64_t>(by)) << 32) / static_cast<std::uint64_t>(by) + 1);
  }
  /// Returns n / value, rounded down.
  __device__ __forceinline__ std::int64_t quotient(std::int64_t n) const {
    if ((n | value) >> 31 != 0) return n / value;
    const auto low = static_cast<std::uint32_t>(n);
    return (static_cast<std::uint32_t>(static_cast<std::uint64_t>(low) * factor >> 32) + low) >> shift;
  }
};

/// A Walk (core/kernels/views.h) whose runs are processed in vectors of `each` elements. Vector i of a run begins at
/// the run's element i * each.
struct WalkVectors {
  std::int64_t count = 0;
  int each = 1, outer = 0;                  ///< elements of a vector; number of dimensions that a run does not cover
  Divisor length, extents[Walk::kMaxRank];  ///< length: in vectors
  std::int64_t strides[Walk::kMaxRank][Walk::kMaxOperands] = {};
  std::int64_t steps[Walk::kMaxOperands] = {};

  WalkVectors(const Walk& walk, int vector_length)
      : count(walk.runs * (walk.length / vector_length)),
        each(vector_length),
        outer(walk.outer),
        length(std::max<std::int64_t>(1, walk.length / vector_length)) {
    for (int d = 0; d < outer; ++d) extents[d] = Divisor(walk.extents[d]);
    std::copy_n(&walk.strides[0][0], Walk::kMaxRank * Walk::kMaxOperands, &strides[0][0]);
    std::copy_n(walk.steps, Walk::kMaxOperands, steps);
  }

  /// Sets at[k] to the index of operand k's first element in vector i.
  template <int kOperands>
  __device__ __forceinline__ void offsets(std::int64_t i, std::int64_t (&at)[kOperands]) const {
    std::int64_t run = outer > 0 ? length.quotient(i) : 0;
    const std::int64_t inside = (i - run * length.value) * each;
#pragma unroll
    for (int k = 0; k < kOperands; ++k) at[k] = inside * steps[k];
    for (int d = 0; d < outer; ++d) {
      const std::int64_t next = d + 1 < outer ? extents[d].quotient(run) : 0, index = run - next * extents[d].value;
#pragma unroll
      for (int k = 0; k < kOperands; ++k) at[k] += index * strides[d][k];
      run = next;
    }
  }
};

/// Calls f.prepare() if F has it. A functor can read device memory there, once per thread.
template <class F>
__device__ __forceinline__ void prepare(F& f) {
  if constexpr (requires { f.prepare(); }) f.prepare();
}

/// Computes y = f(x, i) for every element, where x is the array of the inputs' values and i is the element's index.
template <class C, int kInputs, class F>
__global__ void map_elements(F f, MapInputs<kInputs> inputs, Out out, WalkVectors vectors, std::uint32_t* words) {
  AmaxObserver amax(words, out.dtype);
  prepare(f);
  each_index(vectors.count, [&](std::int64_t i) {
    std::int64_t at[kInputs + 1];
    vectors.offsets(i, at);
    C x[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) x[k] = load_at<C>(inputs.in[k], at[k]);
    const C y = static_cast<C>(f(x, i));
    amax.add(y);
    store_at(out.data, out.dtype, at[kInputs], y);
  });
  amax.publish();
}

/// Like map_elements(), but in packs of 8, for inputs whose elements are contiguous packs or one repeated element. If
/// the walk is a single run, also computes the `rest` elements after the last pack.
template <int kInputs, class F>
__global__ void __launch_bounds__(kMapThreads, kInputs < 3 ? 4 : 3)
    map_packs(F f, MapInputs<kInputs> inputs, Out out, WalkVectors vectors, int rest, std::uint32_t* words) {
  AmaxObserver amax(words, out.dtype);
  prepare(f);
  const std::int64_t thread = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t p = thread; p < vectors.count; p += threads) {
    std::int64_t at[kInputs + 1];
    vectors.offsets(p, at);
    RawPack raw[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      if (vectors.steps[k] != 0)
        raw[k] = fetch_pack(inputs.in[k].data, inputs.in[k].dtype, at[k]);
      else
        raw[k].low.word[0] = std::bit_cast<std::uint32_t>(load_at<float>(inputs.in[k], at[k]));
    }
    float x[kInputs][kPack], y[kPack];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      if (vectors.steps[k] != 0)
        unpack(raw[k], inputs.in[k].dtype, x[k]);
      else {
#pragma unroll
        for (int e = 0; e < kPack; ++e) x[k][e] = std::bit_cast<float>(raw[k].low.word[0]);
      }
    }
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      float one[kInputs];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) one[k] = x[k][e];
      y[e] = static_cast<float>(f(one, p * kPack + e));
      amax.add(y[e]);
    }
    store_pack(out.data, out.dtype, at[kInputs], y);
  }
  if (thread < rest) {
    const std::int64_t i = vectors.count * kPack + thread;
    float one[kInputs];
#pragma unroll
    for (int k = 0; k < kInputs; ++k) one[k] = load_at<float>(inputs.in[k], i * vectors.steps[k]);
    const float y = static_cast<float>(f(one, i));
    amax.add(y);
    store_at(out.data, out.dtype, i, y);
  }
  amax.publish();
}

/// Returns true if every pack of 8 of operand k of `walk` begins at a multiple of 16 bytes.
inline bool lies_in_packs(const Walk& walk, int k, const void* data, DType dtype) {
  if (walk.steps[k] != 1 || !packs(data, dtype)) return false;
  for (int d = 0; d < walk.outer; ++d)
    if (walk.strides[d][k] * static_cast<std::int64_t>(size_of(dtype)) % 16 != 0) return false;
  return true;
}

/// out[i] = f(inputs at i, i), in double if `out` or an input is f64, otherwise in float. Largest magnitudes
/// of results are recorded in `words`, unless it is null. Uses packs if the walk consists of whole packs or is a single
/// run, and if each input is packed or repeats one element along a run.
template <int kInputs, class F>
void map(const F& f, const In (&in)[kInputs], Out out, const Walk& walk, std::uint32_t* words = context().amax_words) {
  const std::int64_t count = walk.runs * walk.length;
  if (count == 0) return;
  MapInputs<kInputs> inputs;
  bool wide = out.dtype == DType::f64;
  bool packed = (walk.outer == 0 || walk.length % kPack == 0) && lies_in_packs(walk, kInputs, out.data, out.dtype);
  for (int k = 0; k < kInputs; ++k) {
    inputs.in[k] = in[k];
    wide = wide || in[k].dtype == DType::f64;
    packed = packed && (walk.steps[k] == 0 || lies_in_packs(walk, k, in[k].data, in[k].dtype));
  }
  if (wide)
    launch(map_elements<double, kInputs, F>, grid_for(ceil_div(count, kMapThreads)), kMapThreads, 0, f, inputs, out,
           WalkVectors(walk, 1), words);
  else if (packed)
    launch(map_packs<kInputs, F>, grid_for(ceil_div(count, kMapThreads * kPack)), kMapThreads, 0, f, inputs, out,
           WalkVectors(walk, kPack), static_cast<int>(count % kPack), words);
  else
    launch(map_elements<float, kInputs, F>, grid_for(ceil_div(count, kMapThreads)), kMapThreads, 0, f, inputs, out,
           WalkVectors(walk, 1), words);
}

/// Like map(), but always computes in double, element by element: for kernels whose speed does not matter.
template <int kInputs, class F>
void map_in_double(const F& f, const In (&in)[kInputs], Out out, const Walk& walk) {
  const std::int64_t count = walk.runs * walk.length;
  if (count == 0) return;
  MapInputs<kInputs> inputs;
  std::copy_n(in, kInputs, inputs.in);
  launch(map_elements<double, kInputs, F>, grid_for(ceil_div(count, kMapThreads)), kMapThreads, 0, f, inputs, out,
         WalkVectors(walk, 1), context().amax_words);
}

/// Returns a walk over `count` elements, for operands that are all contiguous.
inline Walk flat_walk(std::int64_t count, int operands) {
  Walk walk{.runs = count > 0 ? 1 : 0, .length = count};
  for (int i = 0; i < operands; ++i) walk.steps[i] = 1;
  return walk;
}

/// Returns a walk over rows of `cols` elements; the rows of operand i begin pitches[i] elements apart.
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
