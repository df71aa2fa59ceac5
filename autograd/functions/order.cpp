#include "binade/autograd/functions/order.h"

#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/order.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

/// Removes an axis of extent 1 unless it is kept.
IndexedResult without_axis(const IndexedResult& r, int axis, bool keepdim) {
  return keepdim ? r : IndexedResult{squeeze(r.values, axis), squeeze(r.indices, axis)};
}

int axis_of(const char* name, const Variable& x, int axis) {
  const int rank = x.value().rank();
  return ops::checked_axis(name, axis, rank > 0 ? rank : 1);
}

std::int64_t extent_of(const char* name, const Variable& x, int axis) {
  const std::int64_t n = x.value().rank() > 0 ? x.dim(axis) : 1;
  check<ShapeError>(n > 0, "{}: wanted elements along axis {}, got {}", where(name), axis, x.shape());
  return n;
}

Variable first_sorted(const char* name, const Variable& x, int axis, std::int64_t k) {
  return apply_one<ops::Sort>({.axis = axis, .k = k, .name = name}, {x});
}

/// Returns the value, the length and the number of each run of equal neighbors in `values`.
UniqueResult with_runs(const Tensor& values, const ops::Runs& runs) {
  return {index_select(values, 0, runs.starts), runs.group, runs.counts};
}

Tensor flat(const Variable& x) { return x.value().contiguous_copy().reshape(Shape{x.value().numel()}); }

}  // namespace

IndexedResult kthvalue(const Variable& x, std::int64_t k, int axis, bool keepdim) {
  const int at = axis_of("kthvalue", x, axis);
  const std::int64_t n = extent_of("kthvalue", x, at);
  check<ArgumentError>(k >= 1 && k <= n, "{}: wanted k in [1, {}] for axis {} of {}, got {}", where("kthvalue"), n,
                       axis, x.shape(), k);
  const Variable sorted = first_sorted("kthvalue", x, at, k);
  return without_axis(detail::values_at(x, at, x.value().rank() > 0 ? narrow(sorted, at, k - 1, 1) : sorted), at,
                      keepdim);
}

IndexedResult median(const Variable& x, int axis, bool keepdim) {
  const int at = axis_of("median", x, axis);
  extent_of("median", x, at);
  return without_axis(
      detail::values_at(x, at, apply_one<ops::Sort>({.axis = at, .k = 1, .median = true, .name = "median"}, {x})), at,
      keepdim);
}

Variable median(const Variable& x) { return median(reshape(x, {x.value().numel()}), 0).values; }

UniqueResult unique(const Variable& x) {
  const NoGradGuard guard;
  const Tensor values = flat(x);
  const Variable order = first_sorted("unique", values, 0, -1);
  const Tensor sorted = index_select(values, 0, order).value();
  UniqueResult r = with_runs(sorted, ops::runs_of(sorted));
  const Variable inverse = scatter(Tensor::zeros(sorted.shape(), DType::i64, sorted.device()), 0, order, r.inverse);
  r.inverse = reshape(inverse, dims_of(x.shape()));
  return r;
}

UniqueResult unique_consecutive(const Variable& x) {
  const NoGradGuard guard;
  const Tensor values = flat(x);
  UniqueResult r = with_runs(values, ops::runs_of(values));
  r.inverse = reshape(r.inverse, dims_of(x.shape()));
  return r;
}

Variable bincount(const Variable& x, const Variable& weights, std::int64_t least) {
  constexpr const char* kName = "bincount";
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const Tensor values = flat(x);
  check<DTypeError>(!is_floating(values.dtype()), "{}: wanted integers, got {}", where(kName), name_of(values.dtype()));
  check<ArgumentError>(least >= 0 && least <= kMost, "{}: wanted a least number of bins in [0, {}], got {}",
                       where(kName), kMost, least);
  std::int64_t bins = least;
  if (values.numel() > 0) {
    const auto value = [&](bool largest) {
      const std::int64_t at = ops::extreme_position(kName, values, largest);
      return std::pair{at, values.narrow(at, 1).to(DType::i64).on_host().data<std::int64_t>()[0]};
    };
    const auto [at, low] = value(false);
    check<DataError>(low >= 0, "{}: wanted numbers of 0 or more, got {} at position {}", where(kName), low,
                     x.shape().position(at));
    const auto [high_at, high] = value(true);
    check<DataError>(high < kMost, "{}: wanted numbers below {}, got {} at position {}", where(kName), kMost, high,
                     x.shape().position(high_at));
    bins = std::max(bins, high + 1);
  }
  const Tensor index = values.to(DType::i64);
  if (!weights.defined()) return ops::count_positions(index, bins, DType::i64);
  check<ShapeError>(weights.shape() == x.shape(), "{}: wanted a weight for each element of {}, got {}", where(kName),
                    x.shape(), weights.shape());
  check<DeviceError>(weights.device() == x.device(), "{}: wanted weights on {}, got {}", where(kName), x.device(),
                     weights.device());
  const DType dtype = is_floating(weights.dtype()) ? accumulate_dtype(weights.dtype()) : DType::f64;
  return ops::count_positions(index, bins, dtype, flat(weights));
}

Variable histc(const Variable& x, std::int64_t bins, double low, double high) {
  constexpr const char* kName = "histc";
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted a floating dtype, got {}", where(kName), name_of(x.dtype()));
  check<ArgumentError>(bins > 0 && bins <= (std::int64_t{1} << 31), "{}: wanted 1 to 2^31 bins, got {}", where(kName),
                       bins);
  const Tensor values = flat(x);
  if (low == 0 && high == 0 && values.numel() > 0) {
    const auto value = [&](bool largest) {
      return values.narrow(ops::extreme_position(kName, values, largest), 1).to(DType::f64).on_host().item();
    };
    low = value(false);
    high = value(true);
  }
  check<ArgumentError>(std::isfinite(low) && std::isfinite(high) && low <= high,
                       "{}: wanted finite bounds in ascending order, got {} and {}", where(kName), low, high);
  if (low == high) {
    low -= 1;
    high += 1;
  }
  // Counted in i64, because a sum of ones in f32 does not grow beyond 2^24.
  const Tensor counts = ops::count_positions(ops::bins_of(values, low, high, bins), bins + 1, DType::i64);
  return counts.narrow(0, bins).to(accumulate_dtype(x.dtype()));
}

Variable argsort(const Variable& x, int axis, bool descending) {
  return apply_one<ops::Sort>({.axis = axis, .descending = descending, .name = "argsort"}, {x});
}

IndexedResult sort(const Variable& x, int axis, bool descending) {
  return detail::values_at(x, axis, apply_one<ops::Sort>({.axis = axis, .descending = descending}, {x}));
}

Variable msort(const Variable& x) { return sort(x, 0).values; }

IndexedResult topk(const Variable& x, std::int64_t k, int axis, bool largest) {
  return detail::values_at(
      x, axis, apply_one<ops::Sort>({.axis = axis, .descending = largest, .k = k < 0 ? -2 : k, .name = "topk"}, {x}));
}

Variable searchsorted(const Variable& sorted, const Variable& values, bool right) {
  return apply_one<ops::SearchSorted>({.right = right}, {sorted, values});
}

Variable bucketize(const Variable& x, const Variable& boundaries, bool right) {
  return apply_one<ops::SearchSorted>({.right = right, .name = "bucketize"}, {boundaries, x});
}

}  // namespace binade
