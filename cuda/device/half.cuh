#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "binade/core/float16.h"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/// Converts halves to floats and back, rounded to nearest even. A GPU does this with one instruction; other devices use
/// core/float16.h. Both give the same bits, except for the payload of a NaN, which a GPU does not keep.
namespace binade::cuda {

__device__ __forceinline__ float widened(float16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  return x.to_float();
#endif
}
__device__ __forceinline__ float widened(bfloat16 x) { return x.to_float(); }
__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ double widened(double x) { return x; }

template <class T>
__device__ __forceinline__ T narrowed(float x);
template <>
__device__ __forceinline__ float16 narrowed<float16>(float x) {
#if defined(__CUDA_ARCH__)
  return {__half_as_ushort(__float2half_rn(x))};
#else
  return float16::from_float(x);
#endif
}
template <>
__device__ __forceinline__ bfloat16 narrowed<bfloat16>(float x) {
#if defined(__CUDA_ARCH__)
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
  return bfloat16::from_float(x);
#endif
}

/// Returns two numbers, rounded to T, in one word: `low` in its lower half, `high` in its upper half.
template <class T>
__device__ __forceinline__ std::uint32_t narrowed_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float16>)
    return std::bit_cast<std::uint32_t>(__half2_raw(__floats2half2_rn(low, high)));
  else
    return std::bit_cast<std::uint32_t>(__nv_bfloat162_raw(__floats2bfloat162_rn(low, high)));
#else
  return narrowed<T>(low).bits | static_cast<std::uint32_t>(narrowed<T>(high).bits) << 16;
#endif
}

}  // namespace binade::cuda
