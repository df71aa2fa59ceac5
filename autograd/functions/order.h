#pragma once

#include <cstdint>

#include "binade/autograd/functions/scan.h"

/// Sorting, selecting by rank, counting; see core/ops/order.h. NaN is greater than every number, and -0 equals 0. Equal
/// elements keep their order, so results are the same on every device. Gradients go to the selected elements.
namespace binade {

/// Elements in ascending or descending order (NaN first), and their positions. Always stable.
Variable argsort(const Variable& x, int axis = -1, bool descending = false);
IndexedResult sort(const Variable& x, int axis = -1, bool descending = false);
Variable msort(const Variable& x);
/// The k largest (or smallest) elements, in order.
IndexedResult topk(const Variable& x, std::int64_t k, int axis = -1, bool largest = true);
/// The k-th smallest element, counted from 1.
IndexedResult kthvalue(const Variable& x, std::int64_t k, int axis = -1, bool keepdim = false);
/// The middle element, or the lower of two middle ones; NaN if there is a NaN. Without an axis: of all elements.
IndexedResult median(const Variable& x, int axis, bool keepdim = false);
Variable median(const Variable& x);

/// The distinct values; for each element of x, the position of its value in `values`; and each value's count.
struct UniqueResult {
  Variable values{};
  Variable inverse{};
  Variable counts{};
};
/// unique() returns the values in ascending order; each NaN is a distinct value. unique_consecutive() merges equal
/// neighbors (row-major) only, and keeps the order. No gradient. Both wait for a GPU.
UniqueResult unique(const Variable& x);
UniqueResult unique_consecutive(const Variable& x);

/// Counts (i64) how often each number from 0 to the largest occurs in the integers x, or adds the `weights` (of x's
/// shape) of each number. The result has at least `least` elements. Waits for a GPU. No gradient.
Variable bincount(const Variable& x, const Variable& weights = {}, std::int64_t least = 0);
/// Counts the elements of x (floating) in each of `bins` equal parts of [low, high], in the dtype of x; f16 and bf16
/// give f32. low = high = 0 stands for the smallest and the largest element. No gradient.
Variable histc(const Variable& x, std::int64_t bins = 100, double low = 0, double high = 0);

/// Positions at which values would be inserted in sorted rows: before equal elements, or after them if `right`.
Variable searchsorted(const Variable& sorted, const Variable& values, bool right = false);
/// The number of the interval that each element of x is in, for boundaries (n) in ascending order: i with
/// boundaries[i - 1] < x <= boundaries[i], or boundaries[i - 1] <= x < boundaries[i] if `right`.
Variable bucketize(const Variable& x, const Variable& boundaries, bool right = false);

}  // namespace binade
