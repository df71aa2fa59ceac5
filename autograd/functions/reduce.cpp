#include "binade/autograd/functions/reduce.h"

#include <cmath>
#include <limits>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/math.h"

namespace binade {
namespace {

/// Returns x in the dtype of sums.
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
  return keepdim ? total : sum(total, std::move(axes));  // over axes of extent 1: another shape
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

}  // namespace binade
