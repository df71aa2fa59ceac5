#pragma once

#include <cstdint>
#include <vector>

#include "binade/autograd/variable.h"

/// Differences, numerical derivatives and integrals along an axis. Negative axes count from the end. Dtypes and
/// gradients are those of the ops that compute them.
namespace binade {

/// Takes the differences x[i + 1] - x[i] along `axis` n times; for bool, x[i + 1] != x[i]. `prepend` and `append`, if
/// defined, are first concatenated with x. With n positions or fewer, the result is empty.
Variable diff(const Variable& x, std::int64_t n = 1, int axis = -1, const Variable& prepend = {},
              const Variable& append = {});
/// The derivative of x along `axis` for points at equal distances `spacing`: central differences, and at both ends
/// one-sided differences of two points (edge_order 1) or of three (edge_order 2). Computed in f32 (f64 for f64) and
/// rounded to the dtype of x once; whole numbers give f32. Throws ShapeError unless there are edge_order + 1 positions,
/// ArgumentError for another order or a spacing of 0.
Variable gradient(const Variable& x, double spacing, int axis, int edge_order = 1);
/// Like the above, for points at `coordinates` (n). Neighboring coordinates must differ. The host reads them.
Variable gradient(const Variable& x, const Variable& coordinates, int axis, int edge_order = 1);
/// Returns the derivatives along all axes, one result for each.
std::vector<Variable> gradient(const Variable& x, double spacing = 1);

/// The integral of y along `axis` by the trapezoidal rule, for points at distances `spacing`, or at x (of the shape of
/// y, or (n) along the axis). The cumulative functions return the integral up to each position except the first.
Variable trapezoid(const Variable& y, double spacing = 1, int axis = -1);
Variable trapezoid(const Variable& y, const Variable& x, int axis = -1);
Variable cumulative_trapezoid(const Variable& y, double spacing = 1, int axis = -1);
Variable cumulative_trapezoid(const Variable& y, const Variable& x, int axis = -1);

}  // namespace binade
