#pragma once

#include "binade/autograd/variable.h"

/// Cumulative sums, products and extremes along an axis; see core/ops/cumulate.h.
namespace binade {

/// Sum of x up to each position. Integers and bools give i64. Stored in f32 like sum(), whatever 16-bit dtype x has.
Variable cumsum(const Variable& x, int axis);
Variable cumprod(const Variable& x, int axis);
/// Log of the sum of exp(x) up to each position. Does not overflow where the result does not.
Variable logcumsumexp(const Variable& x, int axis);

/// Values and their positions (i64) along the axis.
struct IndexedResult {
  Variable values{};
  Variable indices{};
};
namespace detail {
IndexedResult values_at(const Variable& x, int axis, Variable indices);
}  // namespace detail

/// Largest (smallest) element up to each position: of equal elements the last; NaN before any number. The gradient goes
/// to the element that was taken.
IndexedResult cummax(const Variable& x, int axis);
IndexedResult cummin(const Variable& x, int axis);

}  // namespace binade
