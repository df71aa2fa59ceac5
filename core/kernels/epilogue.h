#pragma once

#include <cstdint>

#include "core/kernels/gemm.h"
#include "core/kernels/seen.h"
#include "core/kernels/simd.h"
#include "core/kernels/vector_math.h"
#include "core/ops/math.h"

/// What happens to a tile of sums on its way to memory. Only for sources in `kernel_sources`.
namespace binade::cpu::BINADE_ISA {

// What is not inlined is called with vectors in memory, and the compiler would rather call than inline that often: the
// functions of a vector are types, and always inlined.

template <Activation kActivation>
struct Activated {
  [[gnu::always_inline]] VFloat operator()(VFloat x) const {
    if constexpr (kActivation == Activation::kRelu) return x <= 0.0f ? VFloat{} : x;  // NaN passes
    if constexpr (kActivation == Activation::kGelu) return gelu(x);
    if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh(x);
    return x;
  }
};
template <Activation kActivation>
struct Slope {
  [[gnu::always_inline]] VFloat operator()(VFloat x) const {
    if constexpr (kActivation == Activation::kRelu) return x <= 0.0f ? VFloat{} : splat(1.0f);
    if constexpr (kActivation == Activation::kGelu) return gelu_slope(x);
    if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh_slope(x);
    return splat(1.0f);
  }
};

/// f(Of<activation>{}).
template <template <Activation> class Of, class F>
inline void with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::kNone: return f(Of<Activation::kNone>{});
    case Activation::kRelu: return f(Of<Activation::kRelu>{});
    case Activation::kGelu: return f(Of<Activation::kGelu>{});
    case Activation::kGeluTanh: return f(Of<Activation::kGeluTanh>{});
  }
}

inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kRelu: return x <= 0 ? 0.0 : x;
    case Activation::kGelu: return math::gelu(x);
    case Activation::kGeluTanh: return math::gelu_tanh(x);
  }
  return x;
}
inline double activation_slope(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kRelu: return x <= 0 ? 0.0 : 1.0;
    case Activation::kGelu: return math::gelu_slope(x);
    case Activation::kGeluTanh: return math::gelu_tanh_slope(x);
  }
  return 1.0;
}

/// to += x, `rows` rows of `columns`.
template <class T>
inline void add_rows(const T* x, std::int64_t x_row, int rows, std::int64_t columns, T* to, std::int64_t to_row) {
  for (int r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < columns; ++j) to[r * to_row + j] += x[r * x_row + j];
}

/// Sums and where they go.
template <class T>
struct Rows {
  const Compute<T>* sums = nullptr;
  std::int64_t sums_row = 0;
  int rows = 0;
  std::int64_t columns = 0;
  std::int64_t column = 0;  ///< of the bias, under the first sum
  T* y = nullptr;
  T* z = nullptr;               ///< the values before the activation; null: not kept
  const T* slope_at = nullptr;  ///< what `slope` is taken of
  std::int64_t row = 0;         ///< elements between two rows of y, z and slope_at
};

/// y = round(activation(sum + bias)), z = round(sum + bias): both round the same sum once, and y must not depend on
/// whether backward wants z (recompute, evaluation). With a slope, y = round(sum slope'(slope_at)).
template <class T>
struct Epilogue {
  const float* bias = nullptr;
  Activation activation = Activation::kNone, slope = Activation::kNone;

  void run(const Rows<T>& t, Seen& seen) const {
    if (slope != Activation::kNone)
      with_activation<Slope>(slope, [&](auto of) { times_slope(t, of, seen); });
    else
      with_activation<Activated>(activation, [&](auto of) {
        t.z != nullptr ? add_bias<true>(t, of, seen) : add_bias<false>(t, of, seen);
      });
  }

 private:
  static constexpr int kN = kLanes<float>;

  /// What is done at a time: two vectors, whose chains overlap, or one, of which `count` values are there.
  struct Two {
    static constexpr int kVectors = 2;
  };
  struct One {
    static constexpr int kVectors = 1;
    int count;
  };
  template <class Group>
  using Vectors = VFloat[Group::kVectors];

  /// f(row, column, group) for all of t.
  template <class F>
  [[gnu::always_inline]] static void each_group(const Rows<T>& t, F&& f) {
    std::int64_t j = 0;
    for (; j + 2 * kN <= t.columns; j += 2 * kN)
      for (int r = 0; r < t.rows; ++r) f(r, j, Two{});
    for (; j < t.columns; j += kN) {
      const One one{t.columns - j < kN ? static_cast<int>(t.columns - j) : kN};
      for (int r = 0; r < t.rows; ++r) f(r, j, one);
    }
  }

  template <class X>
  [[gnu::always_inline]] static VFloat get(const X* from, Two) {
    return load_as_float(from);
  }
  template <class X>
  [[gnu::always_inline]] static VFloat get(const X* from, One one) {
    return one.count == kN ? load_as_float(from) : load_part_as_float(from, one.count);
  }
  [[gnu::always_inline]] static void put(T* to, const Vectors<Two>& x, Two) { store_two_from_float(to, x[0], x[1]); }
  [[gnu::always_inline]] static void put(T* to, const Vectors<One>& x, One one) {
    one.count == kN ? store_from_float(to, x[0]) : store_part_from_float(to, x[0], one.count);
  }

  template <bool kKeepsZ, class Of>
  void add_bias(const Rows<T>& t, Of of, Seen& seen) const {
    const float* shift = bias == nullptr ? nullptr : bias + t.column;
    VFloat largest{};
    each_group(
        t, [&]<class Group>(int r, std::int64_t j, Group group) __attribute__((always_inline)) {
          Vectors<Group> x, y;
#pragma GCC unroll 2
          for (int i = 0; i < Group::kVectors; ++i) {
            const std::int64_t at = j + i * kN;
            x[i] = get(t.sums + r * t.sums_row + at, group);
            if (shift != nullptr) x[i] += get(shift + at, group);
            if (kKeepsZ) largest = larger_magnitude(largest, x[i]);  // one that the activation makes finite counts too
            y[i] = of(x[i]);
            largest = larger_magnitude(largest, y[i]);
          }
          if constexpr (kKeepsZ) put(t.z + r * t.row + j, x, group);
          put(t.y + r * t.row + j, y, group);
        });
    seen.add(largest);
  }

  template <class Of>
  static void times_slope(const Rows<T>& t, Of of, Seen& seen) {
    VFloat largest{};
    each_group(
        t, [&]<class Group>(int r, std::int64_t j, Group group) __attribute__((always_inline)) {
          Vectors<Group> y;
#pragma GCC unroll 2
          for (int i = 0; i < Group::kVectors; ++i) {
            const std::int64_t at = j + i * kN;
            y[i] = get(t.sums + r * t.sums_row + at, group) * of(get(t.slope_at + r * t.row + at, group));
            largest = larger_magnitude(largest, y[i]);
          }
          put(t.y + r * t.row + j, y, group);
        });
    seen.add(largest);
  }
};

template <>
struct Epilogue<double> {
  const double* bias = nullptr;
  Activation activation = Activation::kNone, slope = Activation::kNone;

  void run(const Rows<double>& t, Seen&) const {
    for (int r = 0; r < t.rows; ++r)
      for (std::int64_t j = 0; j < t.columns; ++j) {
        const double sum = t.sums[r * t.sums_row + j];
        const std::int64_t at = r * t.row + j;
        if (slope != Activation::kNone) {
          t.y[at] = sum * activation_slope(slope, t.slope_at[at]);
          continue;
        }
        const double v = sum + (bias != nullptr ? bias[t.column + j] : 0.0);
        if (t.z != nullptr) t.z[at] = v;
        t.y[at] = activate(activation, v);
      }
  }
};

}  // namespace binade::cpu::BINADE_ISA
