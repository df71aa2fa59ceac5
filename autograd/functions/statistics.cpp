#include "binade/autograd/functions/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/composites.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/order.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/make.h"
#include "binade/core/ops/move.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int rank_of(const Variable& x) { return x.value().rank(); }
Variable flat(const Variable& x) { return reshape(x, {x.value().numel()}); }
Variable wide(const Variable& x) { return cast(x, is_floating(x.dtype()) ? accumulate_dtype(x.dtype()) : DType::f32); }
Variable scalar_like(const Variable& x, double value) { return Tensor::scalar(value, x.dtype(), x.device()); }

/// Returns x with 0 for NaN. Unlike nan_to_num(), it passes the gradient to infinite elements.
Variable without_nan(const Variable& x) { return is_floating(x.dtype()) ? where(isnan(x), scalar_like(x, 0), x) : x; }

/// Returns the number (i64) of elements other than NaN.
Variable numbers_in(const Variable& x, const Axes& axes, bool keepdim) {
  return sum(logical_not(isnan(x.detach())), axes, keepdim);
}

/// Returns the axis, counted from the front. A scalar counts as a vector of one element.
int axis_of(const char* name, const Variable& x, int axis) {
  return ops::checked_axis(name, axis, std::max(1, rank_of(x)));
}

int checked_row(const char* name, const Variable& x, int axis) {
  const int at = ops::checked_axis(name, axis, rank_of(x));
  check<ShapeError>(x.dim(at) > 0, "{}: wanted elements along axis {}, got {}", where(name), axis, x.shape());
  return at;
}

/// The sorted elements of x along an axis, from which quantiles are read.
class SortedForQuantiles {
 public:
  SortedForQuantiles(const char* name, const Variable& any, std::optional<int> axis, const QuantileOptions& options,
                     bool leave_out_nan)
      : name_(name), options_(options), given_axis_(axis), given_rank_(rank_of(any)) {
    const Variable x = wide(axis && given_rank_ > 0 ? any : flat(any));
    axis_ = axis && given_rank_ == 0 ? axis_of(name, any, *axis) : checked_row(name, x, axis.value_or(0));
    sorted_ = sort(x, axis_).values;  // NaN comes last
    const Variable numbers = numbers_in(x, axis_, true);
    // If NaN is not left out, the rank is that among all elements, and the result is NaN if there is a NaN.
    const Variable count = leave_out_nan ? numbers
                                         : Variable(full_like(numbers.value(), static_cast<double>(x.dim(axis_))));
    valid_ = leave_out_nan ? numbers > 0 : numbers == count;
    last_ = clamp(cast(count, DType::f64) - 1.0, 0, HUGE_VAL);
  }

  Variable quantile(double q) const {
    check<ArgumentError>(q >= 0 && q <= 1, "{}: wanted q in [0, 1], got {}", where(name_), q);
    const Variable y = between(options_.between == Quantile::kNearest ? round(last_ * q) : last_ * q);
    return shown(where(valid_, y, scalar_like(y, kNan)));
  }

 private:
  Variable at(const Variable& rank) const { return gather(sorted_, axis_, cast(rank, DType::i64)); }
  Variable between(const Variable& rank) const {
    const Variable below = floor(rank);
    if (options_.between == Quantile::kLower || options_.between == Quantile::kNearest) return at(below);
    if (options_.between == Quantile::kHigher) return at(ceil(rank));
    const Variable a = at(below), b = at(ceil(rank));
    const Variable weight = options_.between == Quantile::kMidpoint
                                ? where(rank == below, scalar_like(rank, 0), scalar_like(rank, 0.5))
                                : rank - below;
    return where(logical_and(a == b, isinf(a)), a, lerp(a, b, cast(weight, a.dtype())));  // inf - inf is NaN
  }
  Variable shown(const Variable& y) const {
    if (!given_axis_ || given_rank_ == 0)
      return reshape(y, std::vector<std::int64_t>(static_cast<std::size_t>(options_.keepdim ? given_rank_ : 0), 1));
    return options_.keepdim ? y : squeeze(y, axis_);
  }

  const char* name_;
  QuantileOptions options_;
  std::optional<int> given_axis_;
  int given_rank_, axis_ = 0;
  Variable sorted_{}, valid_{};
  Variable last_{};  // rank of the largest element, f64
};

Variable quantiles_of(const char* name, const Variable& x, const std::vector<double>& q, std::optional<int> axis,
                      const QuantileOptions& options, bool leave_out_nan) {
  check<ArgumentError>(!q.empty(), "{}: wanted at least one q, got none", where(name));
  const SortedForQuantiles ranked(name, x, axis, options, leave_out_nan);
  std::vector<Variable> all;
  for (const double one : q) all.push_back(ranked.quantile(one));
  return stack(all);
}

/// Returns the result of f for a scalar x, which f gets as a vector of one element.
IndexedResult of_scalar(const char* name, const Variable& x, int axis,
                        IndexedResult (*f)(const Variable& x, int axis, bool keepdim)) {
  static_cast<void>(axis_of(name, x, axis));
  return f(flat(x), 0, false);
}

/// Makes products compute in f32 whatever the precision policy.
struct FullPrecisionScope : PolicyScope {
  FullPrecisionScope() : PolicyScope(PrecisionPolicy{}) {}
};

}  // namespace

Variable nansum(const Variable& x, Axes axes, bool keepdim) { return sum(without_nan(x), std::move(axes), keepdim); }

Variable nanmean(const Variable& x, Axes axes, bool keepdim) {
  const Variable total = wide(nansum(x, axes, keepdim));
  return total / cast(numbers_in(x, axes, keepdim), total.dtype());
}

IndexedResult nanmedian(const Variable& x, int axis, bool keepdim) {
  if (rank_of(x) == 0) return of_scalar("nanmedian", x, axis, &nanmedian);
  const int at = checked_row("nanmedian", x, axis);
  const Variable order = argsort(x, at);
  const Variable middle = clamp(floor_divide(numbers_in(x, at, true) - 1, Tensor::scalar(2, DType::i64, x.device())), 0,
                                HUGE_VAL);
  const Variable index = gather(order, at, middle), value = gather(x, at, index);
  if (keepdim) return {value, index};
  return {squeeze(value, at), squeeze(index, at)};
}

Variable nanmedian(const Variable& x) { return nanmedian(flat(x), 0).values; }

Variable quantile(const Variable& x, double q, std::optional<int> axis, const QuantileOptions& options) {
  return SortedForQuantiles("quantile", x, axis, options, false).quantile(q);
}
Variable nanquantile(const Variable& x, double q, std::optional<int> axis, const QuantileOptions& options) {
  return SortedForQuantiles("nanquantile", x, axis, options, true).quantile(q);
}
Variable quantile(const Variable& x, const std::vector<double>& q, std::optional<int> axis,
                  const QuantileOptions& options) {
  return quantiles_of("quantile", x, q, axis, options, false);
}
Variable nanquantile(const Variable& x, const std::vector<double>& q, std::optional<int> axis,
                     const QuantileOptions& options) {
  return quantiles_of("nanquantile", x, q, axis, options, true);
}

IndexedResult mode(const Variable& x, int axis, bool keepdim) {
  if (rank_of(x) == 0) return of_scalar("mode", x, axis, &mode);
  const int at = checked_row("mode", x, axis);
  const Variable rows = movedim(x, {at}, {-1});
  const Variable order = argsort(rows.detach(), -1), sorted = gather(rows.detach(), -1, order);
  const Variable end = searchsorted(sorted, sorted, true), counts = end - searchsorted(sorted, sorted);
  const Variable first = argmax(counts, -1, true);  // the first of equal counts: the smallest element
  const Variable index = movedim(gather(order, -1, gather(end, -1, first) - 1), {-1}, {at});
  const Variable value = gather(x, at, index);
  if (keepdim) return {value, index};
  return {squeeze(value, at), squeeze(index, at)};
}

MinMaxResult aminmax(const Variable& x, Axes axes, bool keepdim) {
  return {min(x, axes, keepdim), max(x, axes, keepdim)};
}
SpreadResult var_mean(const Variable& x, Axes axes, double correction, bool keepdim) {
  return {var(x, axes, correction, keepdim), mean(wide(x), axes, keepdim)};
}
SpreadResult std_mean(const Variable& x, Axes axes, double correction, bool keepdim) {
  return {stddev(x, axes, correction, keepdim), mean(wide(x), axes, keepdim)};
}

Variable cov(const Variable& any, const CovOptions& options) {
  check<ShapeError>(rank_of(any) == 1 || rank_of(any) == 2,
                    "{}: wanted x (variables, observations) or (observations), got {}", where("cov"), any.shape());
  const FullPrecisionScope scope;
  const Variable x = rank_of(any) == 2 ? wide(any) : unsqueeze(wide(any), 0);
  const std::int64_t n = x.dim(1);
  const auto checked = [&](const char* what, const Variable& w) {
    check<ShapeError>(rank_of(w) == 1 && w.dim(0) == n, "{}: wanted {} ({}), one for each observation, got {}",
                      where("cov"), what, n, w.shape());
    return cast(w, x.dtype());
  };
  Variable weight, counted, own;
  if (options.frequencies.defined()) weight = counted = checked("frequencies", options.frequencies);
  if (options.weights.defined()) {
    own = checked("weights", options.weights);
    weight = weight.defined() ? weight * own : own;
  }
  Variable deviation, divisor, scaled;
  if (weight.defined()) {
    const Variable total = sum(weight);
    deviation = x - sum(x * weight, 1, true) / total;
    scaled = deviation * weight;
    const Variable correction = own.defined() ? sum(weight * own) / total * options.correction
                                              : Variable(scalar_like(x, options.correction));
    divisor = total - correction;
    divisor = where(divisor > 0, divisor, scalar_like(x, kNan));
  } else {
    deviation = scaled = x - mean(x, 1, true);
    const double left = static_cast<double>(n) - options.correction;
    divisor = scalar_like(x, left > 0 ? left : kNan);
  }
  const Variable y = matmul(scaled, deviation, {.transpose_b = true}) / divisor;
  return rank_of(any) == 2 ? y : reshape(y, {});
}

Variable corrcoef(const Variable& x) {
  const Variable c = cov(x);
  if (rank_of(c) == 0) return c / c;
  const Variable inverse_deviation = rsqrt(diagonal(c));
  return clamp(c * unsqueeze(inverse_deviation, 1) * inverse_deviation, -1, 1);
}

HistogramResult histogram(const Variable& x, const Variable& edges, const HistogramOptions& options) {
  constexpr const char* kName = "histogram";
  const NoGradGuard guard;
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted a floating dtype, got {}", where(kName), name_of(x.dtype()));
  check<ShapeError>(rank_of(edges) == 1 && edges.dim(0) >= 2, "{}: wanted 2 or more edges (n), got {}", where(kName),
                    edges.shape());
  const DType dtype = accumulate_dtype(x.dtype());
  const Variable values = cast(flat(x), dtype), limits = cast(edges, dtype);
  const std::int64_t bins = limits.dim(0) - 1;
  const auto whole = [&](std::int64_t value) -> Variable {
    return Tensor::scalar(static_cast<double>(value), DType::i64, x.device());
  };
  Variable bin = bucketize(values, limits, true) - 1;
  bin = where(values == narrow(limits, 0, bins, 1), whole(bins - 1), bin);
  bin = where(logical_and(bin >= 0, bin < bins), bin, whole(bins));  // out of range: to an extra bin, which is dropped
  Variable counts = bincount(bin, options.weights.defined() ? flat(options.weights) : Variable(), bins + 1);
  counts = cast(narrow(counts, 0, 0, bins), dtype);
  if (options.density) {
    counts = counts / sum(counts) / (narrow(limits, 0, 1, bins) - narrow(limits, 0, 0, bins));
  }
  return {counts, limits};
}

HistogramResult histogram(const Variable& x, std::int64_t bins, const HistogramOptions& options) {
  constexpr const char* kName = "histogram";
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted a floating dtype, got {}", where(kName), name_of(x.dtype()));
  check<ArgumentError>(bins > 0 && bins <= (std::int64_t{1} << 31), "{}: wanted 1 to 2^31 bins, got {}", where(kName),
                       bins);
  double low = options.low, high = options.high;
  if (low == 0 && high == 0 && x.value().numel() > 0) {
    const NoGradGuard guard;
    low = min(x).value().to(Device::cpu()).item();
    high = max(x).value().to(Device::cpu()).item();
  }
  check<ArgumentError>(std::isfinite(low) && std::isfinite(high) && low <= high,
                       "{}: wanted finite bounds in ascending order, got {} and {}", where(kName), low, high);
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return histogram(x, Variable(linspace(low, high, bins + 1, accumulate_dtype(x.dtype()), x.device())), options);
}

}  // namespace binade
