#include "binade/autograd/functions/differences.h"

#include <algorithm>
#include <cmath>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/scan.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/move.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

int rank_of(const Variable& x) { return x.value().rank(); }

DType floating_dtype(const Variable& x) { return is_floating(x.dtype()) ? x.dtype() : DType::f32; }
Variable floating(const Variable& x) { return cast(x, floating_dtype(x)); }

/// Returns the derivative, at the first or last of three points, of the parabola through them. `outer` and
/// `outer_slope`: length and slope of the interval at that point; `inner` and `inner_slope`: of the other interval.
Variable edge_slope(const Variable& outer_slope, const Variable& inner_slope, double outer, double inner) {
  return outer_slope + (outer_slope - inner_slope) * (outer / (outer + inner));
}

/// Returns `numbers` as a tensor that broadcasts to x along `axis`, in x's dtype and on its device.
Variable along(const Variable& x, int axis, const std::vector<double>& numbers) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank_of(x)), 1);
  const auto n = static_cast<std::int64_t>(numbers.size());
  dims[static_cast<std::size_t>(axis)] = n;
  return reshape(Tensor::from(numbers, Shape{n}).to(x.dtype()).to(x.device()), dims);
}

/// The derivative at the inner points: for equal distances, the difference quotient of both neighbors, otherwise the
/// weighted mean of the slopes on both sides. Weights multiply slopes, not values: weighted values would cancel, and
/// the sum of large ones of both signs could be NaN.
Variable inner_derivative(const Variable& x, int axis, const std::vector<double>& h) {
  const std::int64_t n = x.dim(axis);
  if (std::ranges::all_of(h, [&](double distance) { return distance == h.front(); }))
    return (narrow(x, axis, 2, n - 2) - narrow(x, axis, 0, n - 2)) / (2 * h.front());
  std::vector<double> of_left, of_right;
  for (std::size_t i = 0; i + 1 < h.size(); ++i) {
    of_left.push_back(h[i + 1] / (h[i] + h[i + 1]));
    of_right.push_back(h[i] / (h[i] + h[i + 1]));
  }
  const Variable slopes = (narrow(x, axis, 1, n - 1) - narrow(x, axis, 0, n - 1)) / along(x, axis, h);
  return narrow(slopes, axis, 0, n - 2) * along(x, axis, of_left) +
         narrow(slopes, axis, 1, n - 2) * along(x, axis, of_right);
}

/// The derivative of x for points at the given distances from each other, computed in the dtype of sums.
Variable derivative(const Variable& any, int given_axis, int edge_order, const std::vector<double>& distances) {
  constexpr const char* kName = "gradient";
  const DType dtype = floating_dtype(any);
  const Variable x = cast(any, accumulate_dtype(dtype));
  const int axis = ops::checked_axis(kName, given_axis, rank_of(x));
  const std::int64_t n = x.dim(axis);
  const std::vector<double>& h = distances;
  for (std::size_t i = 0; i < h.size(); ++i)
    check<ArgumentError>(std::isfinite(h[i]) && h[i] != 0, "{}: wanted finite distances other than 0, got {} at {}",
                         where(kName), h[i], i);
  const auto at = [&](std::int64_t i) { return narrow(x, axis, i, 1); };
  std::vector<Variable> parts;
  if (edge_order == 1) {
    parts.push_back((at(1) - at(0)) / h.front());
  } else {
    parts.push_back(edge_slope((at(1) - at(0)) / h[0], (at(2) - at(1)) / h[1], h[0], h[1]));
  }
  if (n > 2) parts.push_back(inner_derivative(x, axis, h));
  if (edge_order == 1) {
    parts.push_back((at(n - 1) - at(n - 2)) / h.back());
  } else {
    const double last = h.back(), before = h[h.size() - 2];
    parts.push_back(edge_slope((at(n - 1) - at(n - 2)) / last, (at(n - 2) - at(n - 3)) / before, last, before));
  }
  return cast(concat(parts, axis), dtype);
}

std::int64_t checked_points(const Variable& x, int axis, int edge_order) {
  const int at = ops::checked_axis("gradient", axis, rank_of(x));
  check<ArgumentError>(edge_order == 1 || edge_order == 2, "{}: wanted an edge order of 1 or 2, got {}",
                       where("gradient"), edge_order);
  check<ShapeError>(x.dim(at) > edge_order, "{}: wanted {} or more positions along axis {}, got {}", where("gradient"),
                    edge_order + 1, axis, x.shape());
  return x.dim(at);
}

/// The areas that the trapezoidal rule adds up: sums of two neighbors along an axis times half of their distance.
struct Trapezoids {
  Variable areas;
  int axis;
};
Trapezoids trapezoids(const char* name, const Variable& any, double spacing, int given_axis) {
  const Variable y = floating(any);
  const int axis = ops::checked_axis(name, given_axis, rank_of(y));
  const std::int64_t n = y.dim(axis);
  check<ShapeError>(n > 0, "{}: wanted a position along axis {}, got {}", where(name), given_axis, y.shape());
  return {(narrow(y, axis, 0, n - 1) + narrow(y, axis, 1, n - 1)) * (spacing / 2), axis};
}
Trapezoids trapezoids(const char* name, const Variable& any, const Variable& x, int given_axis) {
  const auto [sums, axis] = trapezoids(name, any, 1, given_axis);
  const std::int64_t n = any.dim(axis);
  const bool one_row = rank_of(x) == 1 && x.dim(0) == n;
  check<ShapeError>(one_row || x.shape() == any.shape(), "{}: wanted points ({}) or {}, got {}", where(name), n,
                    any.shape(), x.shape());
  Variable distances = diff(x, 1, one_row ? 0 : axis);
  if (one_row) {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(rank_of(any)), 1);
    dims[static_cast<std::size_t>(axis)] = n - 1;
    distances = reshape(distances, dims);
  }
  return {sums * distances, axis};
}

}  // namespace

Variable diff(const Variable& x, std::int64_t n, int axis, const Variable& prepend, const Variable& append) {
  const int at = ops::checked_axis("diff", axis, rank_of(x));
  check<ArgumentError>(n >= 0, "{}: wanted 0 or more differences, got {}", where("diff"), n);
  Variable y = x;
  if (prepend.defined()) y = concat({prepend, y}, at);
  if (append.defined()) y = concat({y, append}, at);
  if (n > y.dim(at)) return narrow(y, at, 0, 0);
  if (y.value().numel() == 0) return narrow(y, at, 0, y.dim(at) - n);  // an empty tensor may have huge extents
  for (; n > 0 && y.dim(at) > 0; --n) {
    const std::int64_t count = y.dim(at) - 1;
    const Variable left = narrow(y, at, 0, count), right = narrow(y, at, 1, count);
    y = y.dtype() == DType::boolean ? right != left : right - left;
  }
  return y;
}

Variable gradient(const Variable& x, double spacing, int axis, int edge_order) {
  const std::int64_t n = checked_points(x, axis, edge_order);
  if (x.value().numel() == 0) return floating(x);  // an empty tensor may have huge extents
  return derivative(x, axis, edge_order, std::vector<double>(static_cast<std::size_t>(n - 1), spacing));
}

Variable gradient(const Variable& x, const Variable& coordinates, int axis, int edge_order) {
  const std::int64_t n = checked_points(x, axis, edge_order);
  check<ShapeError>(rank_of(coordinates) == 1 && coordinates.dim(0) == n,
                    "{}: wanted coordinates ({}), one for each position of axis {}, got {}", where("gradient"), n, axis,
                    coordinates.shape());
  const std::vector<double> points = coordinates.value().to_vector<double>();
  std::vector<double> distances;
  for (std::size_t i = 1; i < points.size(); ++i) distances.push_back(points[i] - points[i - 1]);
  return derivative(x, axis, edge_order, distances);
}

std::vector<Variable> gradient(const Variable& x, double spacing) {
  std::vector<Variable> all;
  for (int axis = 0; axis < rank_of(x); ++axis) all.push_back(gradient(x, spacing, axis));
  return all;
}

Variable trapezoid(const Variable& y, double spacing, int axis) {
  const auto [areas, at] = trapezoids("trapezoid", y, spacing, axis);
  return sum(areas, at);
}
Variable trapezoid(const Variable& y, const Variable& x, int axis) {
  const auto [areas, at] = trapezoids("trapezoid", y, x, axis);
  return sum(areas, at);
}
Variable cumulative_trapezoid(const Variable& y, double spacing, int axis) {
  const auto [areas, at] = trapezoids("cumulative_trapezoid", y, spacing, axis);
  return cumsum(areas, at);
}
Variable cumulative_trapezoid(const Variable& y, const Variable& x, int axis) {
  const auto [areas, at] = trapezoids("cumulative_trapezoid", y, x, axis);
  return cumsum(areas, at);
}

}  // namespace binade
