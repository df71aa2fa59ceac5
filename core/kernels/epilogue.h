#pragma once

#include <cmath>
#include <cstdint>

#include "core/kernels/gemm.h"
#include "core/kernels/simd.h"

/// What happens to a tile of sums on its way to memory. Only for sources in `kernel_sources`.
namespace binade::cpu::BINADE_ISA {

template <class T>
inline T gelu_erf(T x) {
  // erfc keeps the relative accuracy of the lower tail.
  return x * T(0.5) * std::erfc(-x * T(0.70710678118654752440));
}
template <class T>
inline T gelu_erf_slope(T x) {
  const T density = T(0.39894228040143267794) * std::exp(-T(0.5) * x * x);
  return T(0.5) * std::erfc(-x * T(0.70710678118654752440)) + (std::abs(x) < T(40) || x != x ? x * density : T(0));
}
/// 0.5 x (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation in the lower tail.
template <class T>
inline T gelu_tanh(T x) {
  const T u = T(0.79788456080286535588) * x * (T(1) + T(0.044715) * x * x);
  const T e = std::exp(T(-2) * u);
  return std::isinf(e) ? T(0) * (x == x ? T(-1) : x) : x / (T(1) + e);
}
template <class T>
inline T gelu_tanh_slope(T x) {
  if (std::abs(x) > T(40)) return x > T(0) ? T(1) : T(0);
  const T u = T(0.79788456080286535588) * x * (T(1) + T(0.044715) * x * x);
  const T s = T(1) / (T(1) + std::exp(T(-2) * u));
  const T du = T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x);
  return s + T(2) * x * s * (T(1) - s) * du;
}

/// NaN passes: !(x <= 0) holds for it.
template <class T>
inline T relu(T x) {
  return !(x <= T(0)) ? x : T(0);
}

template <class T>
inline T activate(Activation activation, T x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return relu(x);
    case Activation::kGelu: return gelu_erf(x);
    case Activation::kGeluTanh: return gelu_tanh(x);
  }
  return x;
}
template <class T>
inline T activation_slope(Activation activation, T x) {
  switch (activation) {
    case Activation::kNone: return T(1);
    case Activation::kRelu: return !(x <= T(0)) ? T(1) : T(0);
    case Activation::kGelu: return gelu_erf_slope(x);
    case Activation::kGeluTanh: return gelu_tanh_slope(x);
  }
  return T(1);
}

inline VFloat activate(Activation activation, VFloat x) {
  if (activation == Activation::kNone) return x;
  if (activation == Activation::kRelu) return (x <= 0.0f) ? VFloat{} : x;
  VFloat y;
  for (int i = 0; i < kLanes<float>; ++i) y[i] = activate(activation, x[i]);
  return y;
}

/// y = round(activation(sum + bias)), z = round(sum + bias), for `count` neighbors. Both
/// round the same sum once: y must not depend on whether backward wants z (recompute, evaluation).
template <class T>
struct Epilogue {
  const float* bias = nullptr;
  Activation activation = Activation::kNone;

  void row(const float* sums, std::int64_t column, int count, T* y, T* z) const {
    int j = 0;
    for (; j + kLanes<float> <= count; j += kLanes<float>) {
      VFloat v = load_vector<float>(sums + j);
      if (bias != nullptr) v += load_vector<float>(bias + column + j);
      if (z != nullptr) store_from_float(z + j, v);
      store_from_float(y + j, activate(activation, v));
    }
    if (j < count) {
      const int left = count - j;
      VFloat v = load_part(sums + j, left);
      if (bias != nullptr) v += load_part(bias + column + j, left);
      if (z != nullptr) store_part_from_float(z + j, v, left);
      store_part_from_float(y + j, activate(activation, v), left);
    }
  }
};

template <>
struct Epilogue<double> {
  const double* bias = nullptr;
  Activation activation = Activation::kNone;

  void row(const double* sums, std::int64_t column, int count, double* y, double* z) const {
    for (int j = 0; j < count; ++j) {
      const double v = sums[j] + (bias != nullptr ? bias[column + j] : 0.0);
      if (z != nullptr) z[j] = v;
      y[j] = activate(activation, v);
    }
  }
};

}  // namespace binade::cpu::BINADE_ISA
