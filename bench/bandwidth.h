#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "binade/core/parallel.h"
#include "binade/core/tensor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Measures the machine's memory bandwidth by passes over arrays, with the allocator and the threads of Binade's ops.
namespace binade::bench {

/// A pass over arrays of floats.
enum class Pass {
  kRead,            ///< reads x and sums it
  kCopy,            ///< y = x
  kTriad,           ///< y = x + kTriadFactor z
  kStreamingTriad,  ///< kTriad with stores that bypass the caches
};

/// The loops of the passes for one thread; `count` is a multiple of kPassUnit.
struct PassLoops {
  float (*sum)(const float* x, std::int64_t count);
  void (*copy)(float* y, const float* x, std::int64_t count);
  void (*triad)(float* y, const float* x, const float* z, std::int64_t count);
  void (*streaming_triad)(float* y, const float* x, const float* z, std::int64_t count);
};
inline constexpr std::int64_t kPassUnit = 64;  ///< number of floats of which `count` is a multiple
inline constexpr float kTriadFactor = 0.5f;

namespace detail {

/// Keeps the compiler from replacing the enclosing loop by memcpy(), which chooses its own stores.
inline void keep_loop() { asm volatile("" : : : "memory"); }

inline float sum_plain(const float* x, std::int64_t count) {
  float lanes[16] = {};
  for (std::int64_t i = 0; i < count; i += 16)
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += x[i + lane];
  return std::accumulate(lanes, lanes + 16, 0.0f);
}
inline void copy_plain(float* y, const float* x, std::int64_t count) {
  std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(float));
}
inline void triad_plain(float* y, const float* x, const float* z, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] + kTriadFactor * z[i];
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) inline float sum_512(const float* x, std::int64_t count) {
  __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a;
  for (std::int64_t i = 0; i < count; i += 64) {
    a = _mm512_add_ps(a, _mm512_load_ps(x + i));
    b = _mm512_add_ps(b, _mm512_load_ps(x + i + 16));
    c = _mm512_add_ps(c, _mm512_load_ps(x + i + 32));
    d = _mm512_add_ps(d, _mm512_load_ps(x + i + 48));
  }
  return _mm512_cvtss_f32(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
}
__attribute__((target("avx512f"))) inline void copy_512(float* y, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) {
    _mm512_store_ps(y + i, _mm512_load_ps(x + i));
    keep_loop();
  }
}
__attribute__((target("avx512f"))) inline void triad_512(float* y, const float* x, const float* z, std::int64_t count) {
  const __m512 s = _mm512_set1_ps(kTriadFactor);
  for (std::int64_t i = 0; i < count; i += 16)
    _mm512_store_ps(y + i, _mm512_fmadd_ps(s, _mm512_load_ps(z + i), _mm512_load_ps(x + i)));
}
__attribute__((target("avx512f"))) inline void streaming_triad_512(float* y, const float* x, const float* z,
                                                                   std::int64_t count) {
  const __m512 s = _mm512_set1_ps(kTriadFactor);
  for (std::int64_t i = 0; i < count; i += 16)
    _mm512_stream_ps(y + i, _mm512_fmadd_ps(s, _mm512_load_ps(z + i), _mm512_load_ps(x + i)));
  _mm_sfence();
}
__attribute__((target("avx2"))) inline float sum_256(const float* x, std::int64_t count) {
  __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
  for (std::int64_t i = 0; i < count; i += 32) {
    a = _mm256_add_ps(a, _mm256_load_ps(x + i));
    b = _mm256_add_ps(b, _mm256_load_ps(x + i + 8));
    c = _mm256_add_ps(c, _mm256_load_ps(x + i + 16));
    d = _mm256_add_ps(d, _mm256_load_ps(x + i + 24));
  }
  return _mm256_cvtss_f32(_mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
}
__attribute__((target("avx2"))) inline void copy_256(float* y, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 8) {
    _mm256_store_ps(y + i, _mm256_load_ps(x + i));
    keep_loop();
  }
}
__attribute__((target("avx2,fma"))) inline void triad_256(float* y, const float* x, const float* z,
                                                          std::int64_t count) {
  const __m256 s = _mm256_set1_ps(kTriadFactor);
  for (std::int64_t i = 0; i < count; i += 8)
    _mm256_store_ps(y + i, _mm256_fmadd_ps(s, _mm256_load_ps(z + i), _mm256_load_ps(x + i)));
}
__attribute__((target("avx2,fma"))) inline void streaming_triad_256(float* y, const float* x, const float* z,
                                                                    std::int64_t count) {
  const __m256 s = _mm256_set1_ps(kTriadFactor);
  for (std::int64_t i = 0; i < count; i += 8)
    _mm256_stream_ps(y + i, _mm256_fmadd_ps(s, _mm256_load_ps(z + i), _mm256_load_ps(x + i)));
  _mm_sfence();
}
#endif

/// Returns the loops for the widest vectors of this processor.
inline PassLoops pass_loops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {sum_512, copy_512, triad_512, streaming_triad_512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {sum_256, copy_256, triad_256, streaming_triad_256};
#endif
  return {sum_plain, copy_plain, triad_plain, triad_plain};
}

}  // namespace detail

/// Runs passes over arrays such that one pass moves `bytes`. Each thread has its own part of the arrays. A run()
/// repeats a small pass until it moves at least kLeastBytes, so that the start of the threads does not affect the
/// result.
class Bandwidth {
 public:
  explicit Bandwidth(std::int64_t bytes)
      : threads_(num_threads()),
        // Floats that a thread uses of each of a triad's three arrays. A copy or a read uses half() floats of two
        // arrays, so every pass moves the same number of bytes.
        array_elements_(std::max<std::int64_t>(1, bytes / (6 * kUnitBytes * threads_)) * 2 * kPassUnit),
        rounds_(std::max<std::int64_t>(1, kLeastBytes / bytes)),
        sums_(static_cast<std::size_t>(threads_)) {
    for (Tensor& array : arrays_) array = Tensor::full({threads_ * half()}, 1);
  }
  Bandwidth(const Bandwidth&) = delete;
  Bandwidth& operator=(const Bandwidth&) = delete;

  /// Returns the number of bytes that one run() moves.
  double bytes() const { return static_cast<double>(rounds_ * threads_ * 3 * array_elements_) * sizeof(float); }

  void run(Pass pass) {
    parallel_blocks(threads_, [&](std::int64_t thread) {
      for (std::int64_t round = 0; round < rounds_; ++round) run_part(pass, thread);
    });
  }

 private:
  /// Least number of bytes that one run() moves.
  static constexpr std::int64_t kLeastBytes = std::int64_t{64} << 20;
  static constexpr std::int64_t kUnitBytes = kPassUnit * sizeof(float);

  std::int64_t half() const { return array_elements_ / 2 * 3; }

  void run_part(Pass pass, std::int64_t thread) {
    float* y = arrays_[0].mutable_data<float>() + thread * half();
    const float* x = arrays_[1].data<float>() + thread * half();
    const float* z = arrays_[2].data<float>() + thread * half();
    switch (pass) {
      case Pass::kRead: sums_[static_cast<std::size_t>(thread)] = loops_.sum(x, half()) + loops_.sum(z, half()); break;
      case Pass::kCopy: loops_.copy(y, x, half()); break;
      case Pass::kTriad: loops_.triad(y, x, z, array_elements_); break;
      case Pass::kStreamingTriad: loops_.streaming_triad(y, x, z, array_elements_); break;
    }
  }

  PassLoops loops_ = detail::pass_loops();
  std::int64_t threads_, array_elements_,
      rounds_;               // array_elements_: floats of each array in a triad, per thread; rounds_: passes per run()
  std::vector<float> sums_;  // one per thread; storing them keeps the compiler from removing kRead
  Tensor arrays_[3];
};

}  // namespace binade::bench
