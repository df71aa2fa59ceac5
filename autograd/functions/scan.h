#pragma once

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/index.h"
#include "binade/core/ops/cumulate.h"

/// Cumulative sums, products and extremes along an axis; see core/ops/cumulate.h.
namespace binade {

/// Sum of x up to each position. Integers and bools give i64. Stored in f32 like sum(), whatever 16-bit dtype x has.
inline Variable cumsum(const Variable& x, int axis) {
  return apply_one<ops::Cumulate>({.axis = axis, .how = Cumulation::kSum, .name = "cumsum"}, {x});
}
inline Variable cumprod(const Variable& x, int axis) {
  return apply_one<ops::Cumulate>({.axis = axis, .how = Cumulation::kProduct, .name = "cumprod"}, {x});
}
/// Log of the sum of exp(x) up to each position. Does not overflow where the result does not.
inline Variable logcumsumexp(const Variable& x, int axis) {
  return apply_one<ops::Cumulate>({.axis = axis, .how = Cumulation::kLogSumExp, .name = "logcumsumexp"}, {x});
}

/// Values and their positions (i64) along the axis.
struct IndexedResult {
  Variable values{};
  Variable indices{};
};
namespace detail {
inline IndexedResult values_at(const Variable& x, int axis, Variable indices) {
  Variable values = gather(x, axis, indices);
  return {std::move(values), std::move(indices)};
}
}  // namespace detail

/// Largest (smallest) element up to each position: of equal elements the last; NaN before any number. The gradient goes
/// to the element that was taken.
inline IndexedResult cummax(const Variable& x, int axis) {
  return detail::values_at(x, axis, apply_one<ops::CumulativeExtreme>({.axis = axis, .largest = true}, {x}));
}
inline IndexedResult cummin(const Variable& x, int axis) {
  return detail::values_at(x, axis, apply_one<ops::CumulativeExtreme>({.axis = axis, .largest = false}, {x}));
}

}  // namespace binade
