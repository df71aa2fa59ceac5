#pragma once

#include <type_traits>

#include "binade/core/activation.h"
#include "binade/core/kernels/vector_math.h"
#include "binade/core/math.h"

/// Activations that products fuse, and their derivatives. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

// The functions on vectors below are objects whose operator is always inlined, because the compiler would often emit a
// call, and a call passes vectors through memory.

/// Computes the activation of x, for a result that is stored as T. If T is bf16, uses a faster approximation.
template <Activation kActivation, class T>
struct Activated {
  static constexpr bool kSmooth = kActivation == Activation::kGelu || kActivation == Activation::kGeluTanh;
  [[gnu::always_inline]] VFloat operator()(VFloat x) const {
    if constexpr (kActivation == Activation::kRelu) return x <= 0.0f ? VFloat{} : x;  // NaN passes
    if constexpr (kActivation == Activation::kGelu) return std::is_same_v<T, bfloat16> ? gelu_in_bf16(x) : gelu(x);
    if constexpr (kActivation == Activation::kGeluTanh)
      return std::is_same_v<T, bfloat16> ? gelu_tanh_in_bf16(x) : gelu_tanh(x);
    return x;
  }
};
/// Computes the derivative of the activation at x. If T is bf16, uses a faster approximation.
template <Activation kActivation, class T>
struct ActivationDerivative {
  [[gnu::always_inline]] VFloat operator()(VFloat x) const {
    if constexpr (kActivation == Activation::kRelu) return x <= 0.0f ? VFloat{} : splat(1.0f);
    if constexpr (kActivation == Activation::kGelu)
      return std::is_same_v<T, bfloat16> ? gelu_derivative_in_bf16(x) : gelu_derivative(x);
    if constexpr (kActivation == Activation::kGeluTanh)
      return std::is_same_v<T, bfloat16> ? gelu_tanh_derivative_in_bf16(x) : gelu_tanh_derivative(x);
    return splat(1.0f);
  }
};

/// Calls f(Of<A, T>{}), where A is `activation` as a compile-time constant.
template <template <Activation, class> class Of, class T, class F>
inline void with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::kNone: return f(Of<Activation::kNone, T>{});
    case Activation::kRelu: return f(Of<Activation::kRelu, T>{});
    case Activation::kGelu: return f(Of<Activation::kGelu, T>{});
    case Activation::kGeluTanh: return f(Of<Activation::kGeluTanh, T>{});
  }
}

/// Return the activation of x, and its derivative at x, in double.
inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kRelu: return x <= 0 ? 0.0 : x;
    case Activation::kGelu: return math::gelu(x);
    case Activation::kGeluTanh: return math::gelu_tanh(x);
  }
  return x;
}
inline double activation_derivative(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: break;
    case Activation::kRelu: return x <= 0 ? 0.0 : 1.0;
    case Activation::kGelu: return math::gelu_derivative(x);
    case Activation::kGeluTanh: return math::gelu_tanh_derivative(x);
  }
  return 1.0;
}

}  // namespace binade::cpu::BINADE_ISA
