#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/kernels/run.h"
#include "core/kernels/seen.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

/// How the elementwise loops meet storage types: a chunk at a time is widened into a buffer of the computing type that
/// stays in the first cache, worked on there, and rounded once on its way out. Where the stored type is the computing
/// type there is no buffer. Only sources listed in `kernel_sources` may include it.
namespace binade::cpu::BINADE_ISA {

inline constexpr std::int64_t kChunk = 512;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns of its own AVX-512 header

[[gnu::noinline]] inline void widen_f16(const std::uint16_t* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  for (; i < n; ++i) to[i] = float16{from[i]}.to_float();
}

[[gnu::noinline]] inline void round_f16(const float* from, std::uint16_t* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; ++i) to[i] = float16::from_float(from[i]).bits;
}

#pragma GCC diagnostic pop

[[gnu::noinline]] inline void widen_bf16(const std::uint16_t* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
}

/// In integers, as vdpbf16ps' companions flush subnormals.
[[gnu::noinline]] inline void round_bf16(const float* from, std::uint16_t* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (u >> 16) | 0x40u;
    to[i] = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

template <class C, class T>
[[gnu::noinline]] void widen_plain(const void* from, C* to, std::int64_t n) {
  const T* x = static_cast<const T*>(from);
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(x[i]);
}

/// Elements [0, n) of `x` as C. `n` <= kChunk.
[[gnu::noinline]] inline void widen(const In& x, float* to, std::int64_t n) {
  switch (x.dtype) {
    case DType::f32: std::memcpy(to, x.data, static_cast<std::size_t>(n) * sizeof(float)); break;
    case DType::f16: widen_f16(static_cast<const std::uint16_t*>(x.data), to, n); break;
    case DType::bf16: widen_bf16(static_cast<const std::uint16_t*>(x.data), to, n); break;
    case DType::f64: widen_plain<float, double>(x.data, to, n); break;
    case DType::i64: widen_plain<float, std::int64_t>(x.data, to, n); break;
    case DType::i32: widen_plain<float, std::int32_t>(x.data, to, n); break;
    case DType::u8:
    case DType::boolean: widen_plain<float, std::uint8_t>(x.data, to, n); break;
  }
}
[[gnu::noinline]] inline void widen(const In& x, double* to, std::int64_t n) {
  switch (x.dtype) {
    case DType::f64: std::memcpy(to, x.data, static_cast<std::size_t>(n) * sizeof(double)); break;
    case DType::i64: widen_plain<double, std::int64_t>(x.data, to, n); break;
    case DType::i32: widen_plain<double, std::int32_t>(x.data, to, n); break;
    default: {
      float narrow[kChunk];
      widen(x, narrow, n);
      for (std::int64_t i = 0; i < n; ++i) to[i] = narrow[i];
    }
  }
}

[[gnu::noinline]] inline void round(const float* from, const Out& y, std::int64_t n) {
  switch (y.dtype) {
    case DType::f16: round_f16(from, static_cast<std::uint16_t*>(y.data), n); break;
    case DType::bf16: round_bf16(from, static_cast<std::uint16_t*>(y.data), n); break;
    case DType::f64:
      for (std::int64_t i = 0; i < n; ++i) static_cast<double*>(y.data)[i] = from[i];
      break;
    default: std::memcpy(y.data, from, static_cast<std::size_t>(n) * sizeof(float));
  }
}
[[gnu::noinline]] inline void round(const double* from, const Out& y, std::int64_t n) {
  if (y.dtype == DType::f64) {
    std::memcpy(y.data, from, static_cast<std::size_t>(n) * sizeof(double));
    return;
  }
  float narrow[kChunk];
  for (std::int64_t i = 0; i < n; ++i) narrow[i] = static_cast<float>(from[i]);
  round(narrow, y, n);
}

/// Elements [at, at + n) of a run as C: where they lie, if they are of that type, else widened into a buffer. `step` 0
/// repeats one element for ever.
template <class C>
class Reader {
 public:
  explicit Reader(const In& x) : x_(x) {}
  /// For at most n elements.
  Reader(const In& x, std::int64_t step, std::int64_t n) : x_(x), step_(step) {
    if (step_ == 0) {
      widen(x_, buffer_, 1);
      for (std::int64_t i = 1; i < (n < kChunk ? n : kChunk); ++i) buffer_[i] = buffer_[0];
    }
  }
  const C* read(std::int64_t at, std::int64_t n) {
    if (step_ == 0) return buffer_;
    if (x_.dtype == kDTypeOf<C>) return static_cast<const C*>(x_.data) + at;
    widen(x_.at(at), buffer_, n);
    return buffer_;
  }

 private:
  In x_;
  std::int64_t step_ = 1;
  alignas(64) C buffer_[kChunk];
};

/// The same for writing: fill target(at), then call done(at, n).
template <class C>
class Writer {
 public:
  explicit Writer(const Out& y) : y_(y), direct_(y.dtype == kDTypeOf<C>), seen_(y.dtype) {}
  C* target(std::int64_t at) { return direct_ ? static_cast<C*>(y_.data) + at : buffer_; }
  void done(std::int64_t at, std::int64_t n) {
    seen_.add(target(at), n);
    if (!direct_) round(buffer_, y_.at(at), n);
  }

 private:
  Out y_;
  bool direct_;
  Seen seen_;
  alignas(64) C buffer_[kChunk];
};

/// Calls body(at, count) over [0, n) in chunks.
template <class F>
void for_chunks(std::int64_t n, F&& body) {
  for (std::int64_t at = 0; at < n; at += kChunk) body(at, n - at < kChunk ? n - at : kChunk);
}

/// Sum of any number of values in a fixed pattern: each call's (at most kChunk) in 16 lanes side by side that are
/// folded pairwise, then call by call.
template <class C>
class LaneSum {
 public:
  void add(const C* x, std::int64_t n) {
    alignas(64) C lane[16] = {};
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16)
      for (int l = 0; l < 16; ++l) lane[l] += x[i + l];
    for (int l = 0; i < n; ++i, ++l) lane[l] += x[i];
    for (int width = 8; width >= 1; width /= 2)
      for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    total_ += lane[0];
  }
  C total() const { return total_; }

 private:
  C total_ = 0;
};

/// Maximum of n values; a NaN anywhere is the result.
template <class C>
class LaneMax {
 public:
  explicit LaneMax(C lowest) {
    for (C& l : lane_) l = lowest;
  }
  void add(const C* x, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16)
      for (int l = 0; l < 16; ++l) lane_[l] = larger(lane_[l], x[i + l]);
    for (int l = 0; i < n; ++i, ++l) lane_[l] = larger(lane_[l], x[i]);
  }
  C total() const {
    C best = lane_[0];
    for (int l = 1; l < 16; ++l) best = larger(best, lane_[l]);
    return best;
  }
  static C larger(C best, C x) {
    const C kept = x <= best ? best : x;  // a NaN in x is taken
    return best != best ? best : kept;    // and one in best is kept
  }

 private:
  alignas(64) C lane_[16];
};

}  // namespace binade::cpu::BINADE_ISA
