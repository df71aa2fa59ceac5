#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "binade/core/dtype.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/// Vectors of the instruction-set level that this file is compiled for (core/kernels/dispatch.h). Only for sources in
/// `kernel_sources` (meson.build), where the same names stand for 4, 8 or 16 lanes.
namespace binade::cpu::BINADE_ISA {

/// Bytes of a register.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

/// A register of T (float, double, 32-bit integers); + - * / and comparisons work lane by lane.
template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes), may_alias));
};
template <class T>
using Vector = typename VectorOf<T>::type;
using VFloat = Vector<float>;
using VInt = Vector<std::int32_t>;
using VWord = Vector<std::uint32_t>;
/// 16 bits for each lane of a VWord.
typedef std::uint16_t VHalf __attribute__((vector_size(kVectorBytes / 2), may_alias));

/// Number of values of type T in a register.
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
inline Vector<T> splat(T x) {
  return x - Vector<T>{};  // x - 0 is x even for -0 and NaN, and compiles to a plain broadcast; 0 + x changes -0
}

/// Loads a vector from any address, aligned or not.
template <class T>
inline Vector<T> load_vector(const void* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <class T>
inline void store_vector(void* to, const Vector<T>& v) {
  std::memcpy(to, &v, sizeof(v));
}

/// Load and store the first `count` lanes (0 … kLanes<float>). A load sets the other lanes to 0. No byte beyond the
/// `count` values is accessed.
inline VFloat load_part(const float* from, int count) {
#if defined(__AVX512F__)
  return (VFloat)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1u), from);
#else
  VFloat v{};
  std::memcpy(&v, from, static_cast<std::size_t>(count) * sizeof(float));
  return v;
#endif
}
inline void store_part(float* to, const VFloat& v, int count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1u), (__m512)v);
#else
  std::memcpy(to, &v, static_cast<std::size_t>(count) * sizeof(float));
#endif
}

/// Returns a * b + c, with one rounding if the level has FMA, and with two roundings at `generic`.
inline VFloat multiply_add(VFloat a, VFloat b, VFloat c) {
#if defined(__AVX512F__)
  return (VFloat)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (VFloat)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}
inline Vector<double> multiply_add(Vector<double> a, Vector<double> b, Vector<double> c) {
#if defined(__AVX512F__)
  return (Vector<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (Vector<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
  return a * b + c;
#endif
}

/// Prefetches the cache line `bytes` after `from` into L2. The address need not be mapped.
inline void prefetch_line(const void* from, std::int64_t bytes) {
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(bytes);
  __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
}

/// Returns x, and keeps the compiler from contracting this product and a following sum into one multiply-add.
template <class V>
[[gnu::always_inline]] inline V uncontracted(V x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__x86_64__)
  asm("" : "+x"(x));
#endif
  return x;
}

/// Returns true if a lane is NaN.
inline bool any_nan(VFloat x) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q)) != 0;
#else
  bool found = false;
  for (int i = 0; i < kLanes<float>; ++i) found |= x[i] != x[i];
  return found;
#endif
}
inline bool any_nan(Vector<double> x) {
  bool found = false;
  for (int i = 0; i < kLanes<double>; ++i) found |= x[i] != x[i];
  return found;
}

/// Returns the 64-bit products of the low words of the lanes.
inline Vector<std::uint64_t> multiply_low_words(Vector<std::uint64_t> a, Vector<std::uint64_t> b) {
#if defined(__AVX512F__)
  return (Vector<std::uint64_t>)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Vector<std::uint64_t>)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (Vector<std::uint64_t>)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// ---- stored types <-> float vectors: widening is exact, narrowing rounds once to nearest even, NaN stays NaN

inline VFloat load_as_float(const float* from) { return load_vector<float>(from); }
inline VFloat load_as_float(const bfloat16* from) {
#if defined(__AVX512F__)
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  return (VFloat)_mm512_slli_epi32(wide, 16);
#elif defined(__AVX2__)
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return (VFloat)_mm256_slli_epi32(wide, 16);
#else
  VHalf half;
  std::memcpy(&half, from, sizeof(half));
  return (VFloat)(__builtin_convertvector(half, VWord) << 16);
#endif
}
inline VFloat load_as_float(const float16* from) {
#if defined(__AVX512F__)
  return (VFloat)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__)
  return (VFloat)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  VFloat v;
  for (int i = 0; i < kLanes<float>; ++i) v[i] = from[i].to_float();
  return v;
#endif
}

#if defined(__AVX512BF16__)
/// Returns the lanes that the conversion instructions of AVX512_BF16 would flush.
inline __mmask16 subnormal_lanes(VFloat x) { return _mm512_fpclass_ps_mask((__m512)x, 0x20); }
#endif
/// Returns the bf16 bits of each lane, in the low half of a 32-bit lane.
inline VWord bf16_bits(VFloat x) {
  const VWord u = (VWord)x;
  const VWord rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const VWord quiet = (u >> 16) | 0x40u;
  return (x == x) ? rounded : quiet;
}

inline void store_from_float(float* to, VFloat x) { store_vector<float>(to, x); }
inline void store_from_float(bfloat16* to, VFloat x) {
#if defined(__AVX512BF16__)
  if (subnormal_lanes(x) == 0) [[likely]] {
    const __m256bh half = _mm512_cvtneps_pbh((__m512)x);
    std::memcpy(static_cast<void*>(to), &half, sizeof half);
    return;
  }
#endif
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16((__m512i)bf16_bits(x)));
#elif defined(__AVX2__)
  const __m256i u = (__m256i)bf16_bits(x);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(u, u), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
#else
  const VHalf half = __builtin_convertvector(bf16_bits(x), VHalf);
  std::memcpy(static_cast<void*>(to), &half, sizeof(half));
#endif
}
inline void store_from_float(float16* to, VFloat x) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
  for (int i = 0; i < kLanes<float>; ++i) to[i] = float16::from_float(x[i]);
#endif
}

/// Stores two vectors, one after the other.
template <class T>
[[gnu::always_inline]] inline void store_two_from_float(T* to, VFloat first, VFloat second) {
  store_from_float(to, first);
  store_from_float(to + kLanes<float>, second);
}
#if defined(__AVX512BF16__)
[[gnu::always_inline]] inline void store_two_from_float(bfloat16* to, VFloat first, VFloat second) {
  if ((subnormal_lanes(first) | subnormal_lanes(second)) == 0) [[likely]] {
    const __m512bh both = _mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    std::memcpy(static_cast<void*>(to), &both, sizeof both);
    return;
  }
  store_from_float(to, first);
  store_from_float(to + kLanes<float>, second);
}
#endif

/// Load and store only the first `count` lanes.
template <class T>
inline VFloat load_part_as_float(const T* from, int count) {
  T lanes[kLanes<float>] = {};
#if defined(__AVX512BW__)
  const auto valid = static_cast<__mmask16>((1u << count) - 1u);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), _mm256_maskz_loadu_epi16(valid, from));
#else
  std::memcpy(static_cast<void*>(lanes), from, static_cast<std::size_t>(count) * sizeof(T));
#endif
  return load_as_float(lanes);
}
inline VFloat load_part_as_float(const float* from, int count) { return load_part(from, count); }
template <class T>
inline void store_part_from_float(T* to, VFloat x, int count) {
  T lanes[kLanes<float>];
  store_from_float(lanes, x);
#if defined(__AVX512BW__)
  const auto valid = static_cast<__mmask16>((1u << count) - 1u);
  _mm256_mask_storeu_epi16(to, valid, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes)));
#else
  std::memcpy(static_cast<void*>(to), lanes, static_cast<std::size_t>(count) * sizeof(T));
#endif
}
inline void store_part_from_float(float* to, VFloat x, int count) { store_part(to, x, count); }

/// Returns x rounded to T.
template <class T>
[[gnu::always_inline]] inline VFloat rounded_to(VFloat x) {
  if constexpr (std::is_same_v<T, bfloat16>) {
#if defined(__AVX512BF16__)
    if (subnormal_lanes(x) == 0) [[likely]]
      return (VFloat)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x)), 16);
#endif
    return (VFloat)(bf16_bits(x) << 16);
  } else if constexpr (std::is_same_v<T, float16>) {
#if defined(__AVX512F__)
    return (VFloat)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    return (VFloat)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
    for (int i = 0; i < kLanes<float>; ++i) x[i] = float16::from_float(x[i]).to_float();
    return x;
#endif
  } else {
    return x;
  }
}

}  // namespace binade::cpu::BINADE_ISA
