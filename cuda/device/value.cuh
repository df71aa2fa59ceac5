#pragma once

#include <cuda_runtime.h>

#include "binade/core/dtype.h"
#include "binade/core/kernels/elementwise.h"
#include "binade/core/one_rounding.h"
#include "binade/cuda/device/half.cuh"

/// Converts values between memory and registers: any floating dtype is widened to C (float, or double for f64), and
/// results are rounded once.
namespace binade::cuda {

/// 16 bytes, moved in one access.
struct alignas(16) Bytes16 {
  std::uint32_t word[4];
};

/// Four contiguous values, read in one access if they fit in 16 bytes.
template <class C>
struct alignas(16) Quad {
  C value[4];
};

/// Loads element i of a dtype known at run time. Every thread of a warp takes the same branch of the switch.
template <class C>
__device__ __forceinline__ C load_at(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::f32: return static_cast<C>(static_cast<const float*>(data)[i]);
    case DType::f16: return static_cast<C>(widened(static_cast<const float16*>(data)[i]));
    case DType::bf16: return static_cast<C>(widened(static_cast<const bfloat16*>(data)[i]));
    case DType::f64: return static_cast<C>(static_cast<const double*>(data)[i]);
    case DType::i64: return static_cast<C>(static_cast<const std::int64_t*>(data)[i]);
    case DType::i32: return static_cast<C>(static_cast<const std::int32_t*>(data)[i]);
    case DType::u8: return static_cast<C>(static_cast<const std::uint8_t*>(data)[i]);
    case DType::boolean: return static_cast<C>(static_cast<const std::uint8_t*>(data)[i] != 0);
  }
  return C(0);
}
template <class C>
__device__ __forceinline__ C load_at(const In& x, std::int64_t i) {
  return load_at<C>(x.data, x.dtype, i);
}

/// Converts a value to the float that is then rounded to 16 bits. A double or an integer is rounded to odd, so that the
/// result equals a single rounding.
template <class C>
__device__ __forceinline__ float before_half(C x) {
  if constexpr (std::is_same_v<C, float>)
    return x;
  else
    return rounded_to_odd(to_double(x));
}

/// Stores a value as element i of a dtype known at run time, rounded once.
template <class C>
__device__ __forceinline__ void store_at(void* data, DType dtype, std::int64_t i, C value) {
  switch (dtype) {
    case DType::f32: static_cast<float*>(data)[i] = static_cast<float>(value); return;
    case DType::f16: static_cast<float16*>(data)[i] = narrowed<float16>(before_half(value)); return;
    case DType::bf16: static_cast<bfloat16*>(data)[i] = narrowed<bfloat16>(before_half(value)); return;
    case DType::f64: static_cast<double*>(data)[i] = static_cast<double>(value); return;
    case DType::i64: static_cast<std::int64_t*>(data)[i] = to_integer<std::int64_t>(value); return;
    case DType::i32: static_cast<std::int32_t*>(data)[i] = to_integer<std::int32_t>(value); return;
    case DType::u8: static_cast<std::uint8_t*>(data)[i] = to_integer<std::uint8_t>(value); return;
    case DType::boolean: static_cast<std::uint8_t*>(data)[i] = value != C(0); return;
  }
}

/// Number of elements of a pack, which one thread loads or stores together: 16 bytes of halves, 32 bytes of f32.
inline constexpr int kPack = 8;

/// kPack contiguous elements as they are stored. Only f32 uses `high`. Fetching and unpacking are two steps, so that a
/// thread can request several packs before it waits for the first.
struct RawPack {
  Bytes16 low, high;
};

/// Fetches elements i … i + 7 of f32, f16 or bf16, in 16-byte accesses. REQUIRES that they begin at a multiple of 16
/// bytes.
__device__ __forceinline__ RawPack fetch_pack(const void* data, DType dtype, std::int64_t i) {
  RawPack raw;
  const auto* at = reinterpret_cast<const Bytes16*>(static_cast<const char*>(data) +
                                                    (i << (dtype == DType::f32 ? 2 : 1)));
  raw.low = at[0];
  if (dtype == DType::f32) raw.high = at[1];
  return raw;
}

/// Converts a fetched pack to floats.
__device__ __forceinline__ void unpack(const RawPack& raw, DType dtype, float (&x)[kPack]) {
  if (dtype == DType::f32) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      x[k] = std::bit_cast<float>(raw.low.word[k]);
      x[k + 4] = std::bit_cast<float>(raw.high.word[k]);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < kPack; ++k) {
    const auto bits = static_cast<std::uint16_t>(raw.low.word[k / 2] >> (k % 2 * 16));
    x[k] = dtype == DType::f16 ? widened(float16{bits}) : widened(bfloat16{bits});
  }
}

/// Load and store elements i … i + 7 of f32, f16 or bf16. REQUIRE that they begin at a multiple of 16 bytes.
__device__ __forceinline__ void load_pack(const void* data, DType dtype, std::int64_t i, float (&x)[kPack]) {
  if (dtype == DType::f32) return unpack(fetch_pack(data, DType::f32, i), DType::f32, x);
  unpack(fetch_pack(data, DType::bf16, i), dtype, x);  // halves need no register for `high`
}

__device__ __forceinline__ void store_pack(void* data, DType dtype, std::int64_t i, const float (&x)[kPack]) {
  if (dtype == DType::f32) {
    Bytes16* at = reinterpret_cast<Bytes16*>(static_cast<float*>(data) + i);
    Bytes16 low, high;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      low.word[k] = std::bit_cast<std::uint32_t>(x[k]);
      high.word[k] = std::bit_cast<std::uint32_t>(x[k + 4]);
    }
    at[0] = low;
    at[1] = high;
    return;
  }
  Bytes16 all;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    all.word[k] = dtype == DType::f16 ? narrowed_pair<float16>(x[2 * k], x[2 * k + 1])
                                      : narrowed_pair<bfloat16>(x[2 * k], x[2 * k + 1]);
  *reinterpret_cast<Bytes16*>(static_cast<std::uint16_t*>(data) + i) = all;
}

/// Calls body with a null pointer to the widest unit type whose size divides `bytes`. `bytes` is the bitwise or of all
/// addresses and sizes that must be multiples of the unit.
template <class F>
void with_unit(std::uintptr_t bytes, F&& body) {
  if (bytes % 16 == 0) return body(static_cast<Bytes16*>(nullptr));
  if (bytes % 8 == 0) return body(static_cast<std::uint64_t*>(nullptr));
  if (bytes % 4 == 0) return body(static_cast<std::uint32_t*>(nullptr));
  if (bytes % 2 == 0) return body(static_cast<std::uint16_t*>(nullptr));
  return body(static_cast<std::uint8_t*>(nullptr));
}

/// Returns true if load_pack() can read `data` at every multiple of kPack.
inline bool packs(const void* data, DType dtype) {
  return (dtype == DType::f32 || is_half(dtype)) && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

}  // namespace binade::cuda
