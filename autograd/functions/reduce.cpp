#include "binade/autograd/functions/reduce.h"

#include <cmath>
#include <limits>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/math.h"
#include "binade/core/ops/fold.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/softmax.h"

namespace binade {
namespace {

/// Returns x in f32, or in f64 if it is f64.
Variable wide(const Variable& x) { return cast(x, is_floating(x.dtype()) ? accumulate_dtype(x.dtype()) : DType::f32); }

/// Returns the number of elements that are reduced to one.
double count_of(const Shape& x, const std::vector<int>& axes, std::string_view op) {
  const Shape kept = ops::keepdim_shape(x, axes, op);
  double count = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (kept.dim(d) != x.dim(d)) count *= static_cast<double>(x.dim(d));
  return count;
}

}  // namespace

Variable count_nonzero(const Variable& x, Axes axes) { return sum(x != 0, std::move(axes)); }

Variable norm(const Variable& x, double p, Axes axes, bool keepdim) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (p == kInfinity) return max(abs(x), std::move(axes), keepdim);
  if (p == -kInfinity) return min(abs(x), std::move(axes), keepdim);
  if (p == 0) return cast(sum(x != 0, std::move(axes), keepdim), wide(x).dtype());
  return apply_one<ops::Norm>({p, std::move(axes.list), keepdim}, {x});
}

Variable logsumexp(const Variable& x, Axes axes, bool keepdim) {
  const Variable w = wide(x);
  if (w.value().numel() == 0) return log(sum(exp(w), std::move(axes), keepdim));
  // A largest element of inf or -inf is not subtracted: the sum is then that number, and inf - inf would be NaN.
  const Variable largest = nan_to_num(max(w.detach(), axes, true), std::nan(""), 0, 0);
  const Variable total = log(sum(exp(w - largest), axes, true)) + largest;
  return keepdim ? total : sum(total, std::move(axes));  // removes the axes, whose extent is 1
}

Variable var(const Variable& x, Axes axes, double correction, bool keepdim) {
  const Variable w = wide(x);
  const double count = count_of(w.shape(), axes.list, "var");
  const Variable deviation = w - mean(w, axes, true);
  const Variable total = sum(square(deviation), std::move(axes), keepdim);
  return total / (count > correction ? count - correction : std::nan(""));
}

Variable stddev(const Variable& x, Axes axes, double correction, bool keepdim) {
  return sqrt(var(x, std::move(axes), correction, keepdim));
}

Variable sum(const Variable& x, Axes axes, bool keepdim) {
  return apply_one<ops::Sum>({std::move(axes.list), keepdim}, {x});
}

Variable mean(const Variable& x, Axes axes, bool keepdim) {
  return apply_one<ops::Mean>({std::move(axes.list), keepdim}, {x});
}

Variable prod(const Variable& x, Axes axes, bool keepdim) {
  return apply_one<ops::Prod>({std::move(axes.list), keepdim}, {x});
}

Variable max(const Variable& x, Axes axes, bool keepdim) {
  return apply_one<ops::Max>({std::move(axes.list), keepdim}, {x});
}

Variable min(const Variable& x, Axes axes, bool keepdim) {
  return apply_one<ops::Min>({std::move(axes.list), keepdim}, {x});
}

Variable argmax(const Variable& x, std::optional<int> axis, bool keepdim) {
  return apply_one<ops::ArgMax>({axis, keepdim}, {x});
}

Variable argmin(const Variable& x, std::optional<int> axis, bool keepdim) {
  return apply_one<ops::ArgMin>({axis, keepdim}, {x});
}

Variable any(const Variable& x, Axes axes, bool keepdim) {
  return apply_one<ops::Any>({std::move(axes.list), keepdim}, {x});
}

Variable all(const Variable& x, Axes axes, bool keepdim) {
  return apply_one<ops::All>({std::move(axes.list), keepdim}, {x});
}

Variable softmax(const Variable& x, int axis) { return apply_one<ops::Softmax>({axis}, {x}); }
Variable log_softmax(const Variable& x, int axis) { return apply_one<ops::LogSoftmax>({axis}, {x}); }

ExtremumResult detail::max_along(const Variable& x, int axis, bool keepdim) {
  const std::vector<Variable> results = apply<ops::MaxAlong>({axis, keepdim}, {x});
  return {results[0], results[1]};
}

ExtremumResult detail::min_along(const Variable& x, int axis, bool keepdim) {
  const std::vector<Variable> results = apply<ops::MinAlong>({axis, keepdim}, {x});
  return {results[0], results[1]};
}

}  // namespace binade
