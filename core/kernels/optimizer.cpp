#include "binade/core/kernels/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "binade/core/kernels/amax_observer.h"
#include "binade/core/stochastic_rounding.h"

namespace binade::cpu::BINADE_ISA {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu;
constexpr std::uint32_t kInfinity = 0x7f800000u;

inline void raise(std::uint32_t& largest, float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & kMagnitude;
  largest = bits > largest ? bits : largest;
}

// ---- scan ---------------------------------------------------------------------------------------

constexpr int kSquareLanes = 32;  // element i is added to lane i mod 32, at any vector width

/// The bits of the largest magnitude, and the sum of the squares of x * factor.
struct Squares {
  std::uint32_t largest = 0;
  float sum = 0;
};

Squares squares(const float* x, std::int64_t count, float factor) {
  constexpr int kVectors = kSquareLanes / kLanes<float>;
  VFloat sums[kVectors] = {}, magnitudes[kVectors] = {};
  std::int64_t i = 0;
  for (; i + kSquareLanes <= count; i += kSquareLanes)
    for (int v = 0; v < kVectors; ++v) {
      const VFloat own = load_vector<float>(x + i + v * kLanes<float>), scaled = own * factor;
      sums[v] = multiply_add(scaled, scaled, sums[v]);
      magnitudes[v] = larger_magnitude(magnitudes[v], own);
    }
  alignas(64) float lanes[kSquareLanes];
  alignas(64) std::uint32_t largest[kSquareLanes];
  for (int v = 0; v < kVectors; ++v) {
    store_vector<float>(lanes + v * kLanes<float>, sums[v]);
    store_vector<float>(largest + v * kLanes<float>, magnitudes[v]);
  }
  for (int lane = 0; i < count; ++i, ++lane) {
    lanes[lane] += (x[i] * factor) * (x[i] * factor);
    raise(largest[lane], x[i]);
  }
  for (int width = kSquareLanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return {.largest = *std::max_element(largest, largest + kSquareLanes), .sum = lanes[0]};
}

BlockScan scan(const float* values, std::int64_t count) {
  const Squares plain = squares(values, count, 1.0f);
  BlockScan result{plain.largest, 0};
  if (result.largest == 0 || result.largest >= kInfinity) return result;
  const int exponent = std::clamp(static_cast<int>(result.largest >> 23) - 127, -126, 126);
  // In this range no square overflows, and those that underflow are below 2^-60 of the largest square.
  if (exponent >= -32 && exponent <= 32) {
    result.sum_squares = static_cast<double>(plain.sum);
    return result;
  }
  // Otherwise values are scaled by a power of two to magnitudes below 4. Their squares do not overflow, no digits are
  // lost, and the scaling is undone exactly in double.
  const float sum = squares(values, count, std::ldexp(1.0f, -exponent)).sum;
  result.sum_squares = std::ldexp(static_cast<double>(sum), 2 * exponent);
  return result;
}

// ---- 16-bit storage <-> float -------------------------------------------------------------------

template <class T>
void widen(const T* from, float* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes<float> <= count; i += kLanes<float>) store_vector<float>(to + i, load_as_float(from + i));
  for (; i < count; ++i) to[i] = from[i].to_float();
}

template <class T>
void narrow(const float* from, T* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes<float> <= count; i += kLanes<float>) store_from_float(to + i, load_vector<float>(from + i));
  for (; i < count; ++i) to[i] = T::from_float(from[i]);
}

void narrow_to(DType dtype, const float* from, void* base, std::int64_t begin, std::int64_t count) {
  if (dtype == DType::f16)
    narrow(from, static_cast<float16*>(base) + begin, count);
  else
    narrow(from, static_cast<bfloat16*>(base) + begin, count);
}

void narrow_stochastic(DType dtype, const float* from, void* base, const FlatBlock& block, RandomStream stream) {
  stream.index = static_cast<std::uint32_t>(block.slice);
  std::array<std::uint32_t, 4> words{};
  for (std::int64_t i = 0; i < block.count; ++i) {
    const std::int64_t at = block.begin + i;
    if (i == 0 || at % 4 == 0) words = stream.block(static_cast<std::uint64_t>(at / 4));
    const std::uint32_t word = words[static_cast<std::size_t>(at % 4)];
    if (dtype == DType::f16)
      static_cast<float16*>(base)[at] = round_stochastic_f16(from[i], word);
    else
      static_cast<bfloat16*>(base)[at] = round_stochastic_bf16(from[i], word);
  }
}

/// The addresses at which one array of a block is read and written as float: the array itself if it is f32, otherwise
/// scratch. Without `write`, results go to scratch too.
struct Stage {
  const float* in = nullptr;
  float* out = nullptr;
};

Stage stage(void* base, DType dtype, const FlatBlock& block, bool write, float* scratch) {
  if (base == nullptr) return {};
  switch (dtype) {
    case DType::f16:
      widen(static_cast<const float16*>(base) + block.begin, scratch, block.count);
      return {scratch, scratch};
    case DType::bf16:
      widen(static_cast<const bfloat16*>(base) + block.begin, scratch, block.count);
      return {scratch, scratch};
    default: {
      float* values = static_cast<float*>(base) + block.begin;
      return {values, write ? values : scratch};
    }
  }
}

// ---- update -------------------------------------------------------------------------------------

/// The arrays of one block, read and written as float.
struct Arrays {
  const float* gradient;
  Stage w, m, v, s;
};

template <class Rule>
BlockExtremes update_elements(const Arrays& a, std::int64_t count, const UpdateSlice& slice) {
  std::uint32_t largest_w = 0, largest_m = 0, largest_v = 0;
  const float factor = slice.gradient_factor * slice.numbers.direction;
  const float limit = slice.clip_value > 0 ? slice.clip_value : INFINITY;
  const UpdateNumbers numbers = slice.numbers;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    UpdateElement x{.w = a.w.in[i]};
    if constexpr (Rule::kMoments > 0) x.m = a.m.in[i];
    if constexpr (Rule::kMoments > 1) x.v = a.v.in[i];
    if constexpr (Rule::kMoments > 2) x.s = a.s.in[i];
    Rule::update(numbers, math::clamp(a.gradient[i] * factor, -limit, limit), x);
    a.w.out[i] = x.w;
    if constexpr (Rule::kMoments > 0) a.m.out[i] = x.m;
    if constexpr (Rule::kMoments > 1) a.v.out[i] = x.v;
    if constexpr (Rule::kMoments > 2) a.s.out[i] = x.s;
    raise(largest_w, x.w);
    raise(largest_m, x.m);
    raise(largest_v, x.v);
    if constexpr (Rule::kMoments > 2) raise(largest_v, x.s);
  }
  return {largest_w, largest_m, largest_v};
}

BlockExtremes update(const UpdateArguments& a, const FlatBlock& block) {
  const UpdateSlice& s = a.slices[static_cast<std::size_t>(block.slice)];
  if (s.gradient == nullptr) return {};
  alignas(64) float scratch[4][kFlatBlock];
  const Arrays arrays{s.gradient + block.begin, stage(s.value, s.value_dtype, block, a.write, scratch[0]),
                      stage(s.moment1, s.moment_dtype, block, a.write, scratch[1]),
                      stage(s.moment2, s.moment_dtype, block, a.write, scratch[2]),
                      stage(s.moment3, s.moment_dtype, block, a.write, scratch[3])};
  const BlockExtremes extremes = std::visit(
      [&]<class Rule>(Rule) { return update_elements<Rule>(arrays, block.count, s); }, a.rule);
  if (!a.write) return extremes;

  if (is_half(s.value_dtype)) {
    if (a.stochastic)
      narrow_stochastic(s.value_dtype, arrays.w.out, s.value, block, a.rounding);
    else
      narrow_to(s.value_dtype, arrays.w.out, s.value, block.begin, block.count);
  }
  if (s.low != nullptr) narrow_to(s.low_dtype, arrays.w.out, s.low, block.begin, block.count);
  if (is_half(s.moment_dtype)) {
    if (s.moment1 != nullptr) narrow_to(s.moment_dtype, arrays.m.out, s.moment1, block.begin, block.count);
    if (s.moment2 != nullptr) narrow_to(s.moment_dtype, arrays.v.out, s.moment2, block.begin, block.count);
    if (s.moment3 != nullptr) narrow_to(s.moment_dtype, arrays.s.out, s.moment3, block.begin, block.count);
  }
  return extremes;
}

std::uint32_t average(float* average, const void* value, DType value_dtype, std::int64_t count, float weight) {
  alignas(64) float scratch[kFlatBlock];
  const float* x = static_cast<const float*>(value);
  if (value_dtype == DType::f16) widen(static_cast<const float16*>(value), scratch, count);
  if (value_dtype == DType::bf16) widen(static_cast<const bfloat16*>(value), scratch, count);
  if (is_half(value_dtype)) x = scratch;
  std::uint32_t largest = 0;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    average[i] += weight * (x[i] - average[i]);
    raise(largest, average[i]);
  }
  return largest;
}

}  // namespace

const OptimizerBlockKernels& optimizer_block_kernels() {
  static constexpr OptimizerBlockKernels kernels{&scan, &update, &average};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
