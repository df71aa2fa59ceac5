#pragma once

#include <cstdint>

#include "core/kernels/gemm.h"
#include "core/kernels/seen.h"
#include "core/kernels/simd.h"
#include "core/ops/math.h"

/// What happens to a tile of sums on its way to memory. Only for sources in `kernel_sources`.
namespace binade::cpu::BINADE_ISA {

/// `count` values in place. The inner loops are of one register each, so that they become vector code.
template <class F>
inline void for_lanes(float* x, int count, F&& f) {
  for (int i = 0; i < count; i += kLanes<float>)
    for (int lane = 0; lane < kLanes<float>; ++lane) x[i + lane] = f(x[i + lane]);
}
template <class F>
inline void for_lanes(double* x, int count, F&& f) {
  for (int i = 0; i < count; ++i) x[i] = f(x[i]);
}

/// x = activation(x). Reads and writes whole registers: room for them must lie behind the last value.
template <class C>
inline void activate(Activation activation, C* x, int count) {
  switch (activation) {
    case Activation::kNone: return;
    case Activation::kRelu: return for_lanes(x, count, [](C v) { return v <= 0 ? C(0) : v; });  // NaN passes
    case Activation::kGelu: return for_lanes(x, count, [](C v) { return math::gelu(v); });
    case Activation::kGeluTanh: return for_lanes(x, count, [](C v) { return math::gelu_tanh(v); });
  }
}
/// x = activation'(x), likewise.
template <class C>
inline void activation_slope(Activation activation, C* x, int count) {
  switch (activation) {
    case Activation::kNone: return for_lanes(x, count, [](C) { return C(1); });
    case Activation::kRelu: return for_lanes(x, count, [](C v) { return v <= 0 ? C(0) : C(1); });
    case Activation::kGelu: return for_lanes(x, count, [](C v) { return math::gelu_slope(v); });
    case Activation::kGeluTanh: return for_lanes(x, count, [](C v) { return math::gelu_tanh_slope(v); });
  }
}

/// y = round(activation(sum + bias)), z = round(sum + bias), for `count` neighbors. Both round the same sum once: y
/// must not depend on whether backward wants z (recompute, evaluation).
template <class T>
struct Epilogue {
  const float* bias = nullptr;
  Activation activation = Activation::kNone;

  void row(const float* sums, std::int64_t column, int count, T* y, T* z, Seen& seen) const {
    constexpr int kPiece = 4 * kLanes<float>;
    const float* shift = bias == nullptr ? nullptr : bias + column;
    for (; count > 0; count -= kPiece) {
      const int piece = count < kPiece ? count : kPiece;
      alignas(64) float v[kPiece];
      for (int j = 0; j < piece; j += kLanes<float>) {
        const int left = piece - j;
        const bool whole = left >= kLanes<float>;
        VFloat x = whole ? load_vector<float>(sums + j) : load_part(sums + j, left);
        if (shift != nullptr) x += whole ? load_vector<float>(shift + j) : load_part(shift + j, left);
        if (z != nullptr) {
          seen.add(x);  // an infinity that the activation turns into a number is still one
          whole ? store_from_float(z + j, x) : store_part_from_float(z + j, x, left);
        }
        store_vector<float>(v + j, x);
      }
      activate(activation, v, piece);
      for (int j = 0; j < piece; j += kLanes<float>) {
        const int left = piece - j;
        const VFloat x = load_vector<float>(v + j);
        seen.add(left >= kLanes<float> ? x : load_part(v + j, left));
        left >= kLanes<float> ? store_from_float(y + j, x) : store_part_from_float(y + j, x, left);
      }
      sums += kPiece;
      y += kPiece;
      if (shift != nullptr) shift += kPiece;
      if (z != nullptr) z += kPiece;
    }
  }

  /// y = round(sum slope'(z)) for `count` neighbors.
  static void row_with_slope(Activation slope, const float* sums, const T* z, int count, T* y, Seen& seen) {
    constexpr int kPiece = 4 * kLanes<float>;
    for (; count > 0; count -= kPiece, sums += kPiece, z += kPiece, y += kPiece) {
      const int piece = count < kPiece ? count : kPiece;
      alignas(64) float v[kPiece];
      for (int j = 0; j < piece; j += kLanes<float>) {
        const int left = piece - j;
        store_vector<float>(v + j, left >= kLanes<float> ? load_as_float(z + j) : load_part_as_float(z + j, left));
      }
      activation_slope(slope, v, piece);
      for (int j = 0; j < piece; j += kLanes<float>) {
        const int left = piece - j;
        const bool whole = left >= kLanes<float>;
        const VFloat x = (whole ? load_vector<float>(sums + j) : load_part(sums + j, left)) *
                         (whole ? load_vector<float>(v + j) : load_part(v + j, left));
        seen.add(x);
        whole ? store_from_float(y + j, x) : store_part_from_float(y + j, x, left);
      }
    }
  }
};

template <>
struct Epilogue<double> {
  const double* bias = nullptr;
  Activation activation = Activation::kNone;

  void row(const double* sums, std::int64_t column, int count, double* y, double* z, Seen&) const {
    for (int j = 0; j < count; ++j) {
      const double v = sums[j] + (bias != nullptr ? bias[column + j] : 0.0);
      if (z != nullptr) z[j] = v;
      y[j] = v;
      activate(activation, y + j, 1);
    }
  }

  static void row_with_slope(Activation slope, const double* sums, const double* z, int count, double* y, Seen&) {
    for (int j = 0; j < count; ++j) {
      double v = z[j];
      activation_slope(slope, &v, 1);
      y[j] = sums[j] * v;
    }
  }
};

}  // namespace binade::cpu::BINADE_ISA
