#pragma once

#include <optional>

#include "binade/autograd/functions/elementwise.h"

/// Elementwise functions that are composed of ops. Operands broadcast; dtypes, errors and gradients are those of the
/// ops, unless said otherwise. lerp(), addcmul(), addcdiv() and logaddexp2() compute in f32 (f64 for f64) and round to
/// the operands' common dtype once; whole numbers give f32.
namespace binade {

/// a + weight (b - a), computed from the nearer end, so that a weight of 0 gives a and 1 gives b.
Variable lerp(const Variable& a, const Variable& b, const Variable& weight);
Variable lerp(const Variable& a, const Variable& b, double weight);
/// x + value a b, and x + value a / b. addcmul() of whole numbers with a whole `value` gives whole numbers.
Variable addcmul(const Variable& x, const Variable& a, const Variable& b, double value = 1);
Variable addcdiv(const Variable& x, const Variable& a, const Variable& b, double value = 1);

/// The larger or smaller operand. If one is NaN, the result is the other. The gradient goes to the operand that is the
/// result, or to a if both are equal.
Variable fmax(const Variable& a, const Variable& b);
Variable fmin(const Variable& a, const Variable& b);
/// 0 for x < 0, 1 for x > 0, `at_zero` for 0, NaN for NaN. No gradient.
Variable heaviside(const Variable& x, const Variable& at_zero);
/// log2(2^a + 2^b) without overflow.
Variable logaddexp2(const Variable& a, const Variable& b);
/// log(x / (1 - x)), the inverse of sigmoid(): infinite at 0 and 1, NaN outside. With `eps`, x is first limited to
/// [eps, 1 - eps]; eps in [0, 0.5]. Computed in f32 (f64 for f64), stored in the dtype of x.
Variable logit(const Variable& x, std::optional<double> eps = {});
/// Degrees to radians, and back.
Variable deg2rad(const Variable& x);
Variable rad2deg(const Variable& x);
/// Whether the sign is negative (bool); also true for -0 and for NaN with that sign.
Variable signbit(const Variable& x);
/// The logarithm of the multivariate gamma function of dimension p: p (p - 1) / 4 log(pi) + the sum of
/// lgamma(x - j / 2) for j = 0 … p - 1. Throws ArgumentError unless p is in [1, 1000].
Variable mvlgamma(const Variable& x, int p);

/// Options of isclose() and allclose().
struct CloseOptions {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;  ///< true: NaN is close to NaN
};
/// Whether |a - b| <= atol + rtol |b|, or a == b, as bool; compared in f64.
Variable isclose(const Variable& a, const Variable& b, const CloseOptions& options = {});
/// Whether all elements are close. Waits for a GPU.
bool allclose(const Variable& a, const Variable& b, const CloseOptions& options = {});
/// Whether shapes and all elements are equal (as operator==: NaN equals nothing). Waits for a GPU.
bool equal(const Variable& a, const Variable& b);
/// Whether each element of x occurs in `values`, as bool of x's shape. NaN occurs nowhere.
Variable isin(const Variable& x, const Variable& values);

}  // namespace binade
