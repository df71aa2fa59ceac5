#pragma once

#include <cstdint>
#include <vector>

#include "binade/autograd/variable.h"

/// Differences, numerical derivatives and integrals along an axis. Negative axes count from the end. Dtypes and
/// gradients are those of the ops.
namespace binade {

/// x[i + 1] - x[i] along `axis`, `n` times; of bools, whether they differ. `prepend` and `append`, if defined, are
/// first joined with x. Fewer than n + 1 positions give none.
Variable diff(const Variable& x, std::int64_t n = 1, int axis = -1, const Variable& prepend = {},
              const Variable& append = {});
/// The derivative of x along `axis` by central differences, and one-sided ones at both ends: of two points
/// (edge_order 1) or of three (2), for points at equal distances `spacing`. Computed in f32 (f64 for f64) and rounded
/// to the dtype of x once; whole numbers give f32. Throws ShapeError unless there are edge_order + 1 positions,
/// ArgumentError for another order or a spacing of 0.
Variable gradient(const Variable& x, double spacing, int axis, int edge_order = 1);
/// The same for points at `coordinates` (n), which must differ from their neighbors and are read on the host.
Variable gradient(const Variable& x, const Variable& coordinates, int axis, int edge_order = 1);
/// The same along all axes.
std::vector<Variable> gradient(const Variable& x, double spacing = 1);

/// The integral of y along `axis` by the trapezoidal rule, for points at distances `spacing`, or at x (of the shape of
/// y, or (n) along the axis). Cumulative: up to each position but the first.
Variable trapezoid(const Variable& y, double spacing = 1, int axis = -1);
Variable trapezoid(const Variable& y, const Variable& x, int axis = -1);
Variable cumulative_trapezoid(const Variable& y, double spacing = 1, int axis = -1);
Variable cumulative_trapezoid(const Variable& y, const Variable& x, int axis = -1);

}  // namespace binade
