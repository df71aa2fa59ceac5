#include <cstring>
#include <limits>

#include "binade/core/one_rounding.h"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/map.cuh"

namespace binade::cuda {
namespace {

struct Identity {
  template <class C>
  __device__ C operator()(const C (&x)[1], std::int64_t) const {
    return x[0];
  }
};
struct Add {
  template <class C>
  __device__ C operator()(const C (&x)[2], std::int64_t) const {
    return x[0] + x[1];
  }
};

/// Converts a boolean mask to values that are added to logits: 0 for true, -inf for false.
struct Hidden {
  template <class C>
  __device__ C operator()(const C (&x)[1], std::int64_t) const {
    return x[0] != C(0) ? C(0) : -std::numeric_limits<C>::infinity();
  }
};

/// Returns 16 bytes of elements that are all `value`.
Bytes16 repeated(DType dtype, double value) {
  const auto all = [](auto one) {
    Bytes16 bytes;
    for (std::size_t i = 0; i < sizeof bytes; i += sizeof one)
      std::memcpy(reinterpret_cast<char*>(&bytes) + i, &one, sizeof one);
    return bytes;
  };
  switch (dtype) {
    case DType::f32: return all(static_cast<float>(value));
    case DType::f16: return all(store_once<float16>(value));
    case DType::bf16: return all(store_once<bfloat16>(value));
    case DType::f64: return all(value);
    case DType::i64: return all(to_integer<std::int64_t>(value));
    case DType::i32: return all(to_integer<std::int32_t>(value));
    case DType::u8: return all(to_integer<std::uint8_t>(value));
    case DType::boolean: return all(static_cast<std::uint8_t>(value != 0));
  }
  return {};
}

/// Fills rows of `units` units, which begin `pitch` units apart.
template <class Unit>
__global__ void fill_units(Unit* to, Bytes16 pattern, std::int64_t count, Divisor units, std::int64_t pitch) {
  Unit one;
  memcpy(&one, &pattern, sizeof one);
  each_index(count, [&](std::int64_t i) {
    const std::int64_t row = units.quotient(i);
    to[row * pitch + (i - row * units.value)] = one;
  });
}

/// Converts integers to any dtype with one rounding.
__global__ void convert_whole(In from, Out to, WalkVectors elements, std::uint32_t* words) {
  AmaxObserver amax(words, to.dtype);
  each_index(elements.count, [&](std::int64_t i) {
    std::int64_t at[2];
    elements.offsets(i, at);
    const auto x = load_at<std::int64_t>(from, at[0]);
    amax.add(static_cast<float>(x));
    store_at(to.data, to.dtype, at[1], x);
  });
  amax.publish();
}

__global__ void add_checksum(ChecksumArgs a) {
  std::uint64_t sum = 0;
  each_index((a.bytes + 3) / 4,
             [&](std::int64_t i) { sum += checksum_term(checksum_word(a.data, a.bytes, i), i, a.salt); });
  sum = fold_block<Adding, 256>(sum);
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(a.sum), static_cast<unsigned long long>(sum));
}

__global__ void observe_values(In x, std::int64_t count, std::uint32_t* words) {
  AmaxObserver amax(words, x.dtype);
  each_index(count, [&](std::int64_t i) { amax.add(load_at<float>(x, i)); });
  amax.publish();
}

}  // namespace

void run_convert(const ConvertArgs& call) {
  if (call.rows * call.cols == 0) return;
  const In from{call.from.data, call.from.dtype};
  const Out to{call.to.data, call.to.dtype};
  const Walk walk = row_walk(call.rows, call.cols, {call.from.pitch, call.to.pitch});
  if (!is_floating(from.dtype))
    return launch(convert_whole, grid_for(ceil_div(call.rows * call.cols, kMapThreads)), kMapThreads, 0, from, to,
                  WalkVectors(walk, 1), context().amax_words);
  // A copy is not observed, because its values were observed when they were computed.
  map<1>(Identity{}, {from}, to, walk, from.dtype == to.dtype ? nullptr : context().amax_words);
}

void run_fill(const FillArgs& call) {
  if (call.rows * call.cols == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(call.to.dtype));
  const bool flat = call.rows == 1 || call.to.pitch == call.cols;
  const std::int64_t row = (flat ? call.rows : 1) * call.cols * size, pitch = flat ? row : call.to.pitch * size;
  const auto multiples = reinterpret_cast<std::uintptr_t>(call.to.data) | static_cast<std::uintptr_t>(row | pitch);
  with_unit(multiples, [&]<class Unit>(Unit*) {
    constexpr std::int64_t kBytes = sizeof(Unit);
    const std::int64_t count = call.rows * call.cols * size / kBytes;
    launch(fill_units<Unit>, grid_for(ceil_div(count, 256)), 256, 0, static_cast<Unit*>(call.to.data),
           repeated(call.to.dtype, call.value), count, Divisor(row / kBytes), pitch / kBytes);
  });
}

void run_accumulate(const AccumulateArgs& call) {
  map<2>(Add{}, {In{call.into.data, call.into.dtype}, In{call.from.data, call.from.dtype}},
         {call.into.data, call.into.dtype},
         row_walk(call.rows, call.cols, {call.into.pitch, call.from.pitch, call.into.pitch}));
}

void run_observe(const ObserveArgs& call) {
  if (call.count == 0) return;
  launch(observe_values, grid_for(ceil_div(call.count, 256)), 256, 0, In{call.values, call.dtype}, call.count,
         context().amax_words);
}

void run_checksum(const ChecksumArgs& call) {
  if (call.bytes == 0) return;
  launch(add_checksum, grid_for(ceil_div(ceil_div(call.bytes, 4), 256)), 256, 0, call);
}

void run_additive_mask(const AdditiveMaskArgs& call) {
  const In in[] = {{call.mask.data, call.mask.dtype}};
  const Out out{call.to.data, call.to.dtype};
  const Walk walk = row_walk(call.rows, call.cols, {call.mask.pitch, call.cols});
  if (is_floating(call.mask.dtype)) return map<1>(Identity{}, in, out, walk, nullptr);
  map<1>(Hidden{}, in, out, walk, nullptr);
}

}  // namespace binade::cuda
