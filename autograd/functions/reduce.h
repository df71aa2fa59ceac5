#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "binade/autograd/variable.h"

/// Reductions of variables over the given axes, or over all elements if no axes are given; see core/ops/reduce.h,
/// core/ops/fold.h and core/ops/softmax.h. Negative axes count from the end.
namespace binade {

/// The axes of a reduction: `sum(x, -1)`, `sum(x, {0, 2})`. An empty list stands for all axes.
struct Axes {
  std::vector<int> list{};
  Axes() = default;
  Axes(int axis) : list{axis} {}                          // NOLINT(google-explicit-constructor)
  Axes(std::initializer_list<int> axes) : list(axes) {}   // NOLINT(google-explicit-constructor)
  Axes(std::vector<int> axes) : list(std::move(axes)) {}  // NOLINT(google-explicit-constructor)
};

/// The sum. Whole numbers and truth values give i64.
Variable sum(const Variable& x, Axes axes = {}, bool keepdim = false);
Variable mean(const Variable& x, Axes axes = {}, bool keepdim = false);
Variable prod(const Variable& x, Axes axes = {}, bool keepdim = false);
/// The largest or smallest element. The gradient is divided among equal ones.
Variable max(const Variable& x, Axes axes = {}, bool keepdim = false);
Variable min(const Variable& x, Axes axes = {}, bool keepdim = false);

/// Values and positions (i64) along an axis: `auto [values, indices] = max(x, 1)`.
struct ExtremumResult {
  Variable values, indices;
};
namespace detail {
ExtremumResult max_along(const Variable& x, int axis, bool keepdim);
ExtremumResult min_along(const Variable& x, int axis, bool keepdim);
}  // namespace detail
/// The largest or smallest element along one axis, given as an int, and the position of the first such one. The
/// gradient goes to that element. With braces, `max(x, {1})`, only the values are computed.
template <std::same_as<int> Axis>
ExtremumResult max(const Variable& x, Axis axis, bool keepdim = false) {
  return detail::max_along(x, axis, keepdim);
}
template <std::same_as<int> Axis>
ExtremumResult min(const Variable& x, Axis axis, bool keepdim = false) {
  return detail::min_along(x, axis, keepdim);
}
/// The position (i64) of the first largest or smallest element along `axis`, or without an axis in row-major order.
Variable argmax(const Variable& x, std::optional<int> axis = {}, bool keepdim = false);
Variable argmin(const Variable& x, std::optional<int> axis = {}, bool keepdim = false);

/// Whether any, or all, elements are other than 0, as bool.
Variable any(const Variable& x, Axes axes = {}, bool keepdim = false);
Variable all(const Variable& x, Axes axes = {}, bool keepdim = false);
/// The number (i64) of elements other than 0.
Variable count_nonzero(const Variable& x, Axes axes = {});

/// The p-norm (sum of |x|^p)^(1 / p). p = inf gives the largest magnitude, -inf the smallest, 0 the number of elements
/// other than 0.
Variable norm(const Variable& x, double p = 2, Axes axes = {}, bool keepdim = false);
/// log(sum of exp(x)) without overflow, computed and stored in f32 (f64 for f64).
Variable logsumexp(const Variable& x, Axes axes = {}, bool keepdim = false);
/// The mean of (x - mean(x))^2 over n - correction instead of n elements: 1 gives the unbiased variance, 0 that of a
/// whole population. Two passes, computed and stored in f32 (f64 for f64). NaN, like torch's, if n <= correction.
Variable var(const Variable& x, Axes axes = {}, double correction = 1, bool keepdim = false);
/// The square root of var(). Its gradient is infinite where the variance is 0.
Variable stddev(const Variable& x, Axes axes = {}, double correction = 1, bool keepdim = false);

Variable softmax(const Variable& x, int axis = -1);
Variable log_softmax(const Variable& x, int axis = -1);

}  // namespace binade
