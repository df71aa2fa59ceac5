#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

/// Arguments of discrete Fourier transforms. A complex number is two neighboring elements: real and imaginary part.
namespace binade {

enum class FftKind : std::uint8_t {
  kComplex,   ///< n complex numbers to n complex numbers
  kFromReal,  ///< n real numbers to the first n / 2 + 1 complex numbers of their transform
  kToReal,    ///< n / 2 + 1 complex numbers to n real numbers
};

/// Returns how many positions a transform of length n reads or writes along its axis.
constexpr std::int64_t fft_inputs(FftKind kind, std::int64_t n) { return kind == FftKind::kToReal ? n / 2 + 1 : n; }
constexpr std::int64_t fft_outputs(FftKind kind, std::int64_t n) { return kind == FftKind::kFromReal ? n / 2 + 1 : n; }

/// Transforms the lines of x (outer, x_count, inner) to those of y (outer, y_count, inner), where the elements of x or
/// y are complex according to `kind`. With e(t) = exp(-2 pi i t / n), or exp(2 pi i t / n) if `inverse`:
///
///   kComplex, kFromReal   y_k = scale w_k sum over j of x_j e(j k)
///   kToReal               y_j = scale sum over k of w_k Re(x_k e(j k))
///
/// w is 1 at k = 0 and at k = n / 2 for an even n, and `interior` at other k (kComplex: always 1). Positions of x
/// beyond the transform are not read, missing ones count as 0; positions of y beyond it are set to 0. In kToReal, the
/// imaginary part of x_k has no effect if w_k is 1.
struct FftArgs {
  FftKind kind = FftKind::kComplex;
  bool inverse = false;  ///< kFromReal: false, kToReal: true
  std::int64_t outer = 1, inner = 1;
  std::int64_t n = 1;  ///< length of the transform
  std::int64_t x_count = 0, y_count = 0;
  double scale = 1, interior = 1;
  In x{};  ///< any floating dtype
  Out y{};
};

}  // namespace binade
