#pragma once

#include <cstdint>
#include <limits>

#include "binade/core/kernels/activation.h"
#include "binade/core/kernels/lanes.h"

/// Applies bias, activation and rounding to a tile of sums as it is stored. Only for sources in `kernel_sources`
/// (meson.build).
namespace binade::cpu::BINADE_ISA {

/// to += x, for `rows` rows of `columns` elements.
template <class T>
inline void add_rows(const T* x, std::int64_t x_row, int rows, std::int64_t columns, T* to, std::int64_t to_row) {
  for (int r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < columns; ++j) to[r * to_row + j] += x[r * x_row + j];
}

/// True if y is the activation of z, which is sum + bias rounded to T, and not of the unrounded value. Backward then
/// needs only z (docs/decisions/0037), and y does not depend on whether a gradient is wanted. In f32, and for ReLU,
/// both give the same y.
template <class T, class Of>
inline constexpr bool kActivatesRoundedSum = sizeof(T) == 2 && Of::kSmooth;

/// Returns a sum rounded to T, as it is stored in z. A finite sum below T's range becomes T's lowest value instead of
/// -inf: a GELU of the lowest value is 0, like that of the sum, but a GELU of -inf would be 0 times infinity.
template <class T>
[[gnu::always_inline]] inline VFloat as_z(VFloat sum) {
  constexpr auto kLowest = static_cast<float>(-range_of(kDTypeOf<T>).largest);
  return rounded_to<T>(sum >= -std::numeric_limits<float>::max() ? at_least(sum, kLowest) : sum);
}

/// A tile of sums and its destination.
template <class T>
struct Rows {
  const Compute<T>* sums = nullptr;
  std::int64_t sums_row = 0;
  int rows = 0;
  std::int64_t columns = 0;
  std::int64_t column = 0;  ///< column of the first sum, for the bias
  T* y = nullptr;
  T* z = nullptr;                    ///< values before the activation; null: not stored
  const T* derivative_at = nullptr;  ///< input of the activation derivative
  std::int64_t row = 0;              ///< number of elements between rows of y, z and derivative_at
};

/// y = round(activation(sum + bias)), z = round(sum + bias). For a GELU in 16 bits, y = round(activation(z)), even if z
/// is not stored, so that y has the same bits with and without z (recompute, evaluation). With `derivative_of`, y =
/// round(sum derivative_of'(derivative_at)).
template <class T>
struct Epilogue {
  const float* bias = nullptr;
  Activation activation = Activation::kNone, derivative_of = Activation::kNone;

  void run(const Rows<T>& t, AmaxObserver& amax) const {
    if (derivative_of != Activation::kNone)
      with_activation<ActivationDerivative, T>(derivative_of, [&](auto of) { times_derivative(t, of, amax); });
    else
      with_activation<Activated, T>(activation, [&](auto of) {
        t.z != nullptr ? add_bias<true>(t, of, amax) : add_bias<false>(t, of, amax);
      });
  }

 private:
  /// Number of vectors that are computed at a time, so that their dependency chains overlap.
  static constexpr int kSweep = 2;

  /// Calls f(row, column, number of registers as a compile-time constant, Full{} or Part{n}) for all of t.
  template <class F>
  [[gnu::always_inline]] static void each(const Rows<T>& t, F&& f) {
    each_sweep<T, kSweep>(
        t.columns, [&](std::int64_t j, auto n, auto part) __attribute__((always_inline)) {
          for (int r = 0; r < t.rows; ++r) f(r, j, n, part);
        });
  }

  template <bool kKeepsZ, class Of>
  void add_bias(const Rows<T>& t, Of of, AmaxObserver& amax) const {
    const float* shift = bias == nullptr ? nullptr : bias + t.column;
    VFloat largest{};
    each(
        t, [&](int r, std::int64_t j, auto n, auto part) __attribute__((always_inline)) {
          VFloat x[n], y[n];
          for (int i = 0; i < n; ++i) {
            const std::int64_t at = j + i * kLanes<float>;
            x[i] = get(t.sums + r * t.sums_row + at, part);
            if (shift != nullptr) x[i] += get(shift + at, part);
            // Observes x as well, so that an infinity is noticed even if the activation makes it finite. A GELU's
            // result is never larger than its input, so it needs no observation of its own.
            if (kKeepsZ || kActivatesRoundedSum<T, Of>) largest = larger_magnitude(largest, x[i]);
            if (kActivatesRoundedSum<T, Of>) x[i] = as_z<T>(x[i]);
            y[i] = of(x[i]);
            if (!kActivatesRoundedSum<T, Of>) largest = larger_magnitude(largest, y[i]);
          }
          if constexpr (kKeepsZ) put_sweep(t.z + r * t.row + j, x, part);
          put_sweep(t.y + r * t.row + j, y, part);
        });
    amax.add(largest);
  }

  template <class Of>
  static void times_derivative(const Rows<T>& t, Of of, AmaxObserver& amax) {
    VFloat largest{};
    each(
        t, [&](int r, std::int64_t j, auto n, auto part) __attribute__((always_inline)) {
          VFloat y[n];
          for (int i = 0; i < n; ++i) {
            const std::int64_t at = j + i * kLanes<float>;
            y[i] = get(t.sums + r * t.sums_row + at, part) * of(get(t.derivative_at + r * t.row + at, part));
            largest = larger_magnitude(largest, y[i]);
          }
          put_sweep(t.y + r * t.row + j, y, part);
        });
    amax.add(largest);
  }
};

template <>
struct Epilogue<double> {
  const double* bias = nullptr;
  Activation activation = Activation::kNone, derivative_of = Activation::kNone;

  void run(const Rows<double>& t, AmaxObserver&) const {
    for (int r = 0; r < t.rows; ++r)
      for (std::int64_t j = 0; j < t.columns; ++j) {
        const double sum = t.sums[r * t.sums_row + j];
        const std::int64_t at = r * t.row + j;
        if (derivative_of != Activation::kNone) {
          t.y[at] = sum * activation_derivative(derivative_of, t.derivative_at[at]);
          continue;
        }
        const double v = sum + (bias != nullptr ? bias[t.column + j] : 0.0);
        if (t.z != nullptr) t.z[at] = v;
        t.y[at] = activate(activation, v);
      }
  }
};

}  // namespace binade::cpu::BINADE_ISA
