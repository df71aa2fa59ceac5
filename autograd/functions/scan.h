#pragma once

#include "binade/autograd/variable.h"

/// Cumulative sums, products and extremes along an axis; see core/ops/cumulate.h.
namespace binade {

/// Sum of x up to each position. Integers and bools give i64. f16 and bf16 give f32, like sum().
Variable cumsum(const Variable& x, int axis);
Variable cumprod(const Variable& x, int axis);
/// Log of the sum of exp(x) up to each position. It overflows only if the result does.
Variable logcumsumexp(const Variable& x, int axis);

/// Values and their positions (i64) along the axis.
struct IndexedResult {
  Variable values{};
  Variable indices{};
};
namespace detail {
IndexedResult values_at(const Variable& x, int axis, Variable indices);
}  // namespace detail

/// Largest (smallest) element up to each position, and its position: a NaN if there is one, otherwise the last of
/// equal elements. The gradient goes to the selected element.
IndexedResult cummax(const Variable& x, int axis);
IndexedResult cummin(const Variable& x, int axis);

}  // namespace binade
