#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// Measures the machine's limits in the benchmark's own process.
namespace binade::bench {

/// Returns the time of a monotonic clock, in seconds.
inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
/// Returns the processor time of the calling thread, which other processes do not affect.
inline double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Returns a time for measuring intervals: thread time with one thread, otherwise wall time.
inline double work_seconds() { return num_threads() == 1 ? thread_seconds() : seconds(); }

#if defined(__x86_64__)
/// Computes `rounds` x 12 independent multiply-adds of f32, each on a 512-bit register (in multiply_adds_256() a
/// 256-bit register).
__attribute__((target("avx512f"))) inline void multiply_adds_512(std::int64_t rounds) {
  __m512 x = _mm512_set1_ps(1.0f), y = _mm512_set1_ps(1e-9f);
  __m512 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (; rounds > 0; --rounds) {
    asm volatile(
        "vfmadd231ps %12, %13, %0\n vfmadd231ps %12, %13, %1\n vfmadd231ps %12, %13, %2\n vfmadd231ps %12, %13, %3\n"
        "vfmadd231ps %12, %13, %4\n vfmadd231ps %12, %13, %5\n vfmadd231ps %12, %13, %6\n vfmadd231ps %12, %13, %7\n"
        "vfmadd231ps %12, %13, %8\n vfmadd231ps %12, %13, %9\n vfmadd231ps %12, %13, %10\n vfmadd231ps %12, %13, %11\n"
        : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l)
        : "v"(x), "v"(y));
  }
}
__attribute__((target("avx2,fma"))) inline void multiply_adds_256(std::int64_t rounds) {
  __m256 x = _mm256_set1_ps(1.0f), y = _mm256_set1_ps(1e-9f);
  __m256 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (; rounds > 0; --rounds) {
    asm volatile(
        "vfmadd231ps %12, %13, %0\n vfmadd231ps %12, %13, %1\n vfmadd231ps %12, %13, %2\n vfmadd231ps %12, %13, %3\n"
        "vfmadd231ps %12, %13, %4\n vfmadd231ps %12, %13, %5\n vfmadd231ps %12, %13, %6\n vfmadd231ps %12, %13, %7\n"
        "vfmadd231ps %12, %13, %8\n vfmadd231ps %12, %13, %9\n vfmadd231ps %12, %13, %10\n vfmadd231ps %12, %13, %11\n"
        : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f), "+x"(g), "+x"(h), "+x"(i), "+x"(j), "+x"(k), "+x"(l)
        : "x"(x), "x"(y));
  }
}
/// Computes `rounds` x 12 independent bf16 instructions, each of which adds products of pairs to a register of floats.
__attribute__((target("avx512f,avx512bf16"))) inline void pair_products(std::int64_t rounds) {
  __m512 x = _mm512_set1_ps(1e-9f);
  __m512 a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x;
  for (; rounds > 0; --rounds) {
    asm volatile(
        "vdpbf16ps %12, %12, %0\n vdpbf16ps %12, %12, %1\n vdpbf16ps %12, %12, %2\n vdpbf16ps %12, %12, %3\n"
        "vdpbf16ps %12, %12, %4\n vdpbf16ps %12, %12, %5\n vdpbf16ps %12, %12, %6\n vdpbf16ps %12, %12, %7\n"
        "vdpbf16ps %12, %12, %8\n vdpbf16ps %12, %12, %9\n vdpbf16ps %12, %12, %10\n vdpbf16ps %12, %12, %11\n"
        : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l)
        : "v"(x));
  }
}
/// Computes `rounds` x 4 products of tile registers; requires that the kernel level v4amx is in use.
__attribute__((target("amx-tile,amx-bf16"))) inline void tile_products(std::int64_t rounds) {
  alignas(64) std::uint8_t shapes[64] = {1};
  for (int tile = 0; tile < 8; ++tile) {
    shapes[16 + 2 * tile] = 64;
    shapes[48 + tile] = 16;
  }
  asm volatile("" : : "r"(shapes) : "memory");  // the next intrinsic does not declare that it reads the whole array
  _tile_loadconfig(shapes);
  for (; rounds > 0; --rounds) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}
#endif

/// Runs loop(rounds) on all threads and returns their best total rate in GFLOP/s. A round has `flops` operations.
template <class F>
double peak_of(double flops, F&& loop) {
  constexpr std::int64_t kRounds = 400'000;
  double best = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {  // short ones (1 ms), because threads often wake late
    const int threads = num_threads();
    const double start = work_seconds();
    parallel_blocks(threads, [&](std::int64_t) { loop(kRounds); });
    const double took = work_seconds() - start;
    best = std::max(best, threads * static_cast<double>(kRounds) * flops / took * 1e-9);
  }
  return best;
}

/// Returns the best total rate of f32 multiply-adds of all threads in GFLOP/s; 0 if it cannot be measured.
inline double peak_gflops() {
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  return peak_of(12 * (wide ? 32 : 16),
                 [&](std::int64_t rounds) { wide ? multiply_adds_512(rounds) : multiply_adds_256(rounds); });
#else
  return 0;
#endif
}

/// Returns the best total rate of bf16 products of all threads in GFLOP/s, at the kernel level `isa`. A level without
/// bf16 instructions computes in f32, so its rate is peak_gflops().
inline double peak_bf16_gflops(std::string_view isa) {
#if defined(__x86_64__)
  if (isa == "v4amx") return peak_of(4 * 16 * 16 * 32 * 2, tile_products);
  if (isa == "v4bf16") return peak_of(12 * 64, pair_products);
#endif
  return peak_gflops();
}

/// Returns the nanoseconds that pass until a core reads a value that another core wrote: the best of many measurements,
/// or 0 on a machine with one core. The time is half as long between cores that share a cache. A virtual machine may
/// move threads to such cores or away at any time, which changes the speed of small products and the memory bandwidth.
inline double core_to_core_ns() {
  if (std::thread::hardware_concurrency() < 2) return 0;
  constexpr int kGames = 30, kTurns = 4000;
  double best = 1e30;
  for (int game = 0; game < kGames; ++game) {
    alignas(128) std::atomic<int> turn{0};
    const auto play = [&turn](int first) {  // writes every other turn; returns the time since both threads started
      double began = 0;
      for (int own = first; own < kTurns; own += 2) {
        for (int waited = 0; turn.load(std::memory_order_acquire) != own; ++waited)
          if (waited > 10'000) std::this_thread::yield();
        if (own == first + 2) began = seconds();
        turn.store(own + 1, std::memory_order_release);
      }
      return seconds() - began;
    };
    std::thread other(play, 1);
    best = std::min(best, play(0) * 1e9 / (kTurns - 2));
    other.join();
  }
  return best;
}
/// Prints the result of core_to_core_ns(). `when` tells the reader when it was measured.
inline void print_handover(std::string_view when) {
  if (num_threads() > 1) fmt::print("{}: {:.0f} ns from core to core\n", when, core_to_core_ns());
}

/// Returns `count` normally distributed values.
template <class T>
std::vector<T> normal_values(std::int64_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<T> x(static_cast<std::size_t>(count));
  for (T& v : x) v = store<T>(normal(generator));
  return x;
}

/// Returns the shortest time of a call of f among `repeats` calls, in seconds (work_seconds()).
template <class F>
double best_seconds(int repeats, F&& f) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const double start = work_seconds();
    f();
    best = std::min(best, work_seconds() - start);
  }
  return best;
}

/// Parses the arguments [THREADS [REPEATS]] of a benchmark of matrix products, and measures the peak rates.
struct ProductBench {
  int repeats;
  double peak, bf16_peak;  ///< best total rates of f32 and bf16 in GFLOP/s

  ProductBench(int argc, char** argv, int usual_repeats) : repeats(argc > 2 ? std::atoi(argv[2]) : usual_repeats) {
    set_num_threads(argc > 1 ? std::atoi(argv[1]) : 2);
    const std::string_view level = cpu::level().isa;
    peak = peak_gflops();
    bf16_peak = peak_bf16_gflops(level);
    fmt::print("level {}, {} threads, peak of multiply-adds {:.1f} GFLOP/s in f32, {:.1f} in bf16\n", level,
               num_threads(), peak, bf16_peak);
    print_handover("before");
  }
  ~ProductBench() { print_handover("after"); }
};

}  // namespace binade::bench
