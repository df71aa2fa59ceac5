#pragma once

#include "binade/core/host_device.h"

/// The recurrent cells, as formulas for all devices. `Math` has the type Value, which is float, double or a vector of
/// them, and its sigmoid() and tanh(). a = x W_ih^T + b_ih and b = h W_hh^T + b_hh have one value per gate, in
/// PyTorch's order; gh is the gradient of the new h.
///
/// Sources: Elman, "Finding structure in time", 1990; Hochreiter and Schmidhuber, "Long short-term memory", 1997, with
/// the forget gate of Gers et al., 2000; Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014,
/// in the form of cuDNN and PyTorch, whose reset gate is applied after the product.
namespace binade::recurrent {

/// Operands and results of one element of forward.
template <class Math, int kGates, int kActivations>
struct Element {
  using V = typename Math::Value;
  V a[kGates], b[kGates];
  V state;  ///< in: c (LSTM) or h (GRU) before the step; out: after it
  V h;      ///< out
  V activations[kActivations];
};
/// Operands and results of one element of backward.
template <class Math, int kGates, int kActivations>
struct ElementGradient {
  using V = typename Math::Value;
  V activations[kActivations];
  V h_before, c_before, c;  ///< h_before: GRU only; c: LSTM only
  V gh;                     ///< out: gradient of the previous h, without the part through b
  V gc;                     ///< LSTM only: in: gradient of c; out: of the previous c
  V ga[kGates], gb[kGates];
};

/// h' = tanh(a + b)
struct Tanh {
  static constexpr int kGates = 1, kActivations = 1;
  static constexpr bool kState = false, kCell = false, kTwoGradients = false;
  template <class Math>
  BINADE_HD static void forward(Element<Math, 1, 1>& e) {
    e.h = e.activations[0] = Math::tanh(e.a[0] + e.b[0]);
  }
  template <class Math>
  BINADE_HD static void backward(ElementGradient<Math, 1, 1>& e) {
    using V = typename Math::Value;
    e.ga[0] = e.gh * (1.0f - e.activations[0] * e.activations[0]);
    e.gh = V{};
  }
};

/// h' = max(0, a + b)
struct Relu {
  static constexpr int kGates = 1, kActivations = 1;
  static constexpr bool kState = false, kCell = false, kTwoGradients = false;
  template <class Math>
  BINADE_HD static void forward(Element<Math, 1, 1>& e) {
    using V = typename Math::Value;
    const V z = e.a[0] + e.b[0];
    e.h = e.activations[0] = z <= 0.0f ? V{} : z;
  }
  template <class Math>
  BINADE_HD static void backward(ElementGradient<Math, 1, 1>& e) {
    using V = typename Math::Value;
    e.ga[0] = e.activations[0] <= 0.0f ? V{} : e.gh;
    e.gh = V{};
  }
};

/// i, f, o = sigmoid(a + b), g = tanh(a + b) in the order i, f, g, o; c' = f c + i g; h' = o tanh(c')
struct Lstm {
  static constexpr int kGates = 4, kActivations = 4;
  static constexpr bool kState = true, kCell = true, kTwoGradients = false;
  template <class Math>
  BINADE_HD static void forward(Element<Math, 4, 4>& e) {
    using V = typename Math::Value;
    const V i = Math::sigmoid(e.a[0] + e.b[0]), f = Math::sigmoid(e.a[1] + e.b[1]);
    const V g = Math::tanh(e.a[2] + e.b[2]), o = Math::sigmoid(e.a[3] + e.b[3]);
    e.state = f * e.state + i * g;
    e.h = o * Math::tanh(e.state);
    e.activations[0] = i;
    e.activations[1] = f;
    e.activations[2] = g;
    e.activations[3] = o;
  }
  template <class Math>
  BINADE_HD static void backward(ElementGradient<Math, 4, 4>& e) {
    using V = typename Math::Value;
    const V i = e.activations[0], f = e.activations[1], g = e.activations[2], o = e.activations[3];
    const V tanh_c = Math::tanh(e.c);
    const V gc = e.gc + e.gh * o * (1.0f - tanh_c * tanh_c);
    e.ga[0] = gc * g * (i * (1.0f - i));
    e.ga[1] = gc * e.c_before * (f * (1.0f - f));
    e.ga[2] = gc * i * (1.0f - g * g);
    e.ga[3] = e.gh * tanh_c * (o * (1.0f - o));
    e.gc = gc * f;
    e.gh = V{};
  }
};

/// r, z = sigmoid(a + b), n = tanh(a + r b) in the order r, z, n; h' = n + z (h - n). The fourth activation is b of n.
struct Gru {
  static constexpr int kGates = 3, kActivations = 4;
  static constexpr bool kState = true, kCell = false, kTwoGradients = true;
  template <class Math>
  BINADE_HD static void forward(Element<Math, 3, 4>& e) {
    using V = typename Math::Value;
    const V r = Math::sigmoid(e.a[0] + e.b[0]), z = Math::sigmoid(e.a[1] + e.b[1]);
    const V n = Math::tanh(e.a[2] + r * e.b[2]);
    e.h = e.state = n + z * (e.state - n);
    e.activations[0] = r;
    e.activations[1] = z;
    e.activations[2] = n;
    e.activations[3] = e.b[2];
  }
  template <class Math>
  BINADE_HD static void backward(ElementGradient<Math, 3, 4>& e) {
    using V = typename Math::Value;
    const V r = e.activations[0], z = e.activations[1], n = e.activations[2];
    const V gn = e.gh * (1.0f - z) * (1.0f - n * n);
    e.ga[0] = e.gb[0] = gn * e.activations[3] * (r * (1.0f - r));
    e.ga[1] = e.gb[1] = e.gh * (e.h_before - n) * (z * (1.0f - z));
    e.ga[2] = gn;
    e.gb[2] = gn * r;
    e.gh = e.gh * z;
  }
};

}  // namespace binade::recurrent
