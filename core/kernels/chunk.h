#pragma once

#include <cstdint>
#include <cstring>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/kernels/lanes.h"
#include "binade/core/one_rounding.h"

/// Elementwise loops over stored types: a chunk is widened into a buffer of the computing type that stays in the L1
/// cache, processed there, and rounded once as it is stored. There is no buffer if the stored type is the computing
/// type. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

inline constexpr std::int64_t kChunk = 512;  ///< number of elements of a chunk

template <class T>
[[gnu::noinline]] void widen_low(const T* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#pragma GCC unroll 4
  for (; i + kLanes<float> <= n; i += kLanes<float>) store_vector<float>(to + i, load_as_float(from + i));
  for (; i < n; ++i) to[i] = from[i].to_float();
}

/// Rounds values to T and observes them, in one pass.
template <class T>
[[gnu::noinline]] void round_low(const float* from, T* to, std::int64_t n, AmaxObserver& amax) {
  put_row(to, n, amax, [&](std::int64_t i, auto part) { return get(from + i, part); });
}

template <class C, class T>
[[gnu::noinline]] void widen_plain(const void* from, C* to, std::int64_t n) {
  const T* x = static_cast<const T*>(from);
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(x[i]);
}

/// Converts elements [0, n) of `x` to C. `n` <= kChunk.
[[gnu::noinline]] inline void widen(const In& x, float* to, std::int64_t n) {
  switch (x.dtype) {
    case DType::f32: std::memcpy(to, x.data, static_cast<std::size_t>(n) * sizeof(float)); break;
    case DType::f16: widen_low(static_cast<const float16*>(x.data), to, n); break;
    case DType::bf16: widen_low(static_cast<const bfloat16*>(x.data), to, n); break;
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

/// Stores elements [0, n) in `y` and observes them. `n` <= kChunk.
[[gnu::noinline]] inline void round(const float* from, const Out& y, std::int64_t n, AmaxObserver& amax) {
  switch (y.dtype) {
    case DType::f16: return round_low(from, static_cast<float16*>(y.data), n, amax);
    case DType::bf16: return round_low(from, static_cast<bfloat16*>(y.data), n, amax);
    case DType::f64:
      for (std::int64_t i = 0; i < n; ++i) static_cast<double*>(y.data)[i] = from[i];
      return;
    default: std::memcpy(y.data, from, static_cast<std::size_t>(n) * sizeof(float)); amax.add(from, n);
  }
}
[[gnu::noinline]] inline void round(const double* from, const Out& y, std::int64_t n, AmaxObserver& amax) {
  if (y.dtype == DType::f64) {
    std::memcpy(y.data, from, static_cast<std::size_t>(n) * sizeof(double));
    return;
  }
  float narrow[kChunk];
  const bool twice = y.dtype != DType::f32;  // narrow[i] is rounded once more, to 16 bits
  for (std::int64_t i = 0; i < n; ++i) narrow[i] = twice ? rounded_to_odd(from[i]) : static_cast<float>(from[i]);
  round(narrow, y, n, amax);
}

/// Reads elements [at, at + n) of a contiguous operand as C: in place if the operand has that type, otherwise widened
/// into a buffer. If the step is 0, every element is the operand's first one.
template <class C>
class Reader {
 public:
  explicit Reader(const In& x) : x_(x) {}
  /// `n`: the largest number of elements that will be read at once.
  Reader(const In& x, std::int64_t step, std::int64_t n) : x_(x), step_(step) {
    if (step_ == 0) {
      widen(x_, buffer_, 1);
      for (std::int64_t i = 1; i < (n < kChunk ? n : kChunk); ++i) buffer_[i] = buffer_[0];
    }
  }
  /// Prefetches elements [at, at + n), which may be past the operand's end, for a later reader.
  void prefetch(std::int64_t at, std::int64_t n) const {
    const auto size = static_cast<std::int64_t>(size_of(x_.dtype));
    for (std::int64_t byte = at * size; byte < (at + n) * size; byte += 64) prefetch_line(x_.data, byte);
  }
  /// Returns the address of elements [at, at + n) as C. The next call may overwrite them.
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

/// Writes elements of a contiguous operand: the caller fills target(at), then calls done(at, n), which rounds and
/// observes them.
template <class C>
class Writer {
 public:
  explicit Writer(const Out& y) : y_(y), direct_(y.dtype == kDTypeOf<C>), amax_(y.dtype) {}
  /// Returns the address at which the caller stores elements from `at` on, at most kChunk of them.
  C* target(std::int64_t at) { return direct_ ? static_cast<C*>(y_.data) + at : buffer_; }
  /// Rounds and observes the n elements that the caller has stored at target(at).
  void done(std::int64_t at, std::int64_t n) {
    if (direct_)
      amax_.add(target(at), n);
    else
      round(buffer_, y_.at(at), n, amax_);
  }

 private:
  Out y_;
  bool direct_;  // true if loops write to y itself, false if to buffer_
  AmaxObserver amax_;
  alignas(64) C buffer_[kChunk];
};

/// Calls body(at, count) for each chunk of [0, n).
template <class F>
void for_chunks(std::int64_t n, F&& body) {
  for (std::int64_t at = 0; at < n; at += kChunk) body(at, n - at < kChunk ? n - at : kChunk);
}

/// Calls kDouble if x is f64, otherwise kFloat.
template <auto kDouble, auto kFloat, class... A>
void call_for_dtype(In x, A... rest) {
  x.dtype == DType::f64 ? kDouble(x, rest...) : kFloat(x, rest...);
}

/// Writes elements [0, n): to[i] = value(x[i]...) for the elements of each reader.
template <class C, class F, class... X>
[[gnu::always_inline]] inline void map_elements(std::int64_t n, Writer<C>& to, F&& value, X&... x) {
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    [&](C* __restrict y, const auto*... from) {
      for (std::int64_t i = 0; i < count; ++i) y[i] = value(from[i]...);
    }(to.target(at), x.read(at, count)...);
    to.done(at, count);
  });
}

/// Sums any number of values in a fixed pattern: the values of each call (at most kChunk) are summed in 64 lanes that
/// are folded pairwise, and the sums of the calls are added in order. No addition within a call waits for the previous
/// one.
template <class C>
class LaneSum {
 public:
  void add(const C* x, std::int64_t n) {
    constexpr int kVectors = 64 / kLanes<C>;
    Vector<C> sum[kVectors] = {};
    std::int64_t i = 0;
    for (; i + 64 <= n; i += 64)
      for (int v = 0; v < kVectors; ++v) sum[v] += load_vector<C>(x + i + v * kLanes<C>);
    int v = 0;
    each_group<C>(n - i, [&](std::int64_t at, auto part) { sum[v++] += get(x + i + at, part); });
    for (int width = kVectors / 2; width >= 1; width /= 2)
      for (int k = 0; k < width; ++k) sum[k] += sum[k + width];
    total_ += sum_lanes(sum[0]);
  }
  C total() const { return total_; }

 private:
  C total_ = 0;
};

/// Computes the maximum of all values passed to add(); of equal values, the first. The maximum is NaN if any value is
/// NaN.
template <class C>
class LaneMax {
 public:
  explicit LaneMax(C lowest) {
    for (Vector<C>& best : best_) best = splat(lowest);
  }
  void add(const C* x, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + 64 <= n;
         i += 64)  // compares four vectors in a tree, then with the best so far; of equal values the first is kept
      for (int v = 0; v < kVectors; ++v) {
        const C* from = x + i + v * kLanes<C>;
        const Vector<C> first = larger(load_vector<C>(from), load_vector<C>(from + 16));
        const Vector<C> second = larger(load_vector<C>(from + 32), load_vector<C>(from + 48));
        best_[v] = larger(best_[v], larger(first, second));
      }
    for (; i < n; ++i) {
      const int lane = static_cast<int>(i % 16);
      best_[lane / kLanes<C>][lane % kLanes<C>] = larger(best(lane), x[i]);
    }
  }
  C total() const {
    C all = best(0);
    for (int lane = 1; lane < 16; ++lane) all = larger(all, best(lane));
    return all;
  }
  /// Returns the larger of two scalars or vectors. A NaN in x is taken, and a NaN in `best` is kept.
  template <class V>
  static V larger(V best, V x) {
    return (x <= best) | (best != best) ? best : x;
  }

 private:
  static constexpr int kVectors = 16 / kLanes<C>;  // number of registers with 16 lanes in all
  C best(int lane) const { return best_[lane / kLanes<C>][lane % kLanes<C>]; }

  Vector<C> best_[kVectors];
};

}  // namespace binade::cpu::BINADE_ISA
