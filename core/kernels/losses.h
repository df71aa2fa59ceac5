#pragma once

#include <cstdint>

#include "binade/core/host_device.h"
#include "binade/core/kernels/elementwise.h"

namespace binade {

/// Cross entropy of rows of logits (formulas in core/ops/cross_entropy.h).
struct CrossEntropyArgs {
  bool backward = false;
  bool each = false;   ///< true: one loss (and gy) for each row; false: the sum of all losses, divided by `divisor`
  double divisor = 0;  ///< 0: the number of rows that are not ignored
  std::int64_t rows = 0, classes = 0, pitch = 0;  ///< pitch: elements between rows of the logits
  In logits{}, targets{};
  Out statistics{};               ///< (rows, 2): maximum, sum of exp(x - maximum)
  std::int64_t* count = nullptr;  ///< number of rows that are not ignored
  In gy{};
  Out out{};  ///< forward: the loss; backward: gx, which may share the memory of the logits
  std::int64_t ignore_index = 0;
  double label_smoothing = 0;
  std::uint64_t call = 0;  ///< identifies the call in the report of a target outside the classes (core/faults.h)
};

/// A loss of ops::ElementLosses over `count` contiguous elements.
struct ElementLossArgs {
  int op = 0;         ///< position in ops::ElementLosses
  int direction = 0;  ///< 0: out = sum of value(x, t) / divisor; 1, 2: gy / divisor times the derivative by x or t
  bool each = false;  ///< out (or gy) has the values of all elements instead of their sum; the divisor is not used
  std::int64_t count = 0;
  In x{}, t{}, gy{};
  double divisor = 1;
  Out out{};
  OpParams params{};
};

/// Sums for soft Dice over `count` contiguous elements. sums (3), in f32 or f64, receives the sums of x t, of x and of
/// t.
struct DiceSumsArgs {
  std::int64_t count = 0;
  In x{}, t{};
  Out sums{};
};
/// The fraction n / d of the Dice loss 1 - n / d (N and D of DiceLossArgs), in double on every device.
struct DiceFraction {
  double n, d;
  BINADE_HD DiceFraction(double product, double x, double t, double smooth)
      : n(2 * product + smooth), d(x + t + smooth) {}
  BINADE_HD double loss() const { return 1 - n / d; }
  /// The gradient by x is offset(gy) - factor(gy) t; the gradient by t is offset(gy) - factor(gy) x.
  BINADE_HD double offset(double gy) const { return gy * n / d / d; }
  BINADE_HD double factor(double gy) const { return 2 * gy / d; }
};
/// loss = 1 - N / D,  N = 2 sums[0] + smooth,  D = sums[1] + sums[2] + smooth
struct DiceLossArgs {
  In sums{};
  double smooth = 0;
  Out loss{};
};
/// g = gy (N / D - 2 other) / D: the gradient by x with other = t, or by t with other = x
struct DiceGradientArgs {
  std::int64_t count = 0;
  In other{}, sums{}, gy{};
  double smooth = 0;
  Out g{};
};

}  // namespace binade
