#pragma once

#include "binade/core/ops/move.h"

/// Sorting, searching and selecting by value. Results are positions (i64), which have no gradient; the functions in
/// autograd/functions/order.h fetch the values with Gather, which has one. NaN is greater than every number, and -0
/// equals 0. The positions do not depend on the number of threads or the device.
namespace binade::ops {

/// Sorts x along `axis` and returns the positions of the first k elements: ascending, or descending (NaN first). In
/// both cases, equal elements keep their order. x has any dtype. Throws ArgumentError for a bad axis or k.
struct Sort {
  struct Params {
    int axis = -1;
    bool descending = false;
    std::int64_t k = -1;        ///< -1: all
    bool median = false;        ///< with k = 1: the position of the lower middle element, or of the last NaN
    const char* name = "sort";  ///< the function that the user called, for errors
  };
  static constexpr OpInfo info{.name = "sort", .inputs = "x", .differentiable = false, .observed = Observed::kMoves};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};

/// Returns for each value the number of elements of a sorted row that are smaller (`right`: smaller or equal): the
/// position at which it would be inserted. `sorted` is (n), or (…, n) with the outer extents of `values`. Two integer
/// tensors are compared in i64, others in f64 if one of them is f64, i64 or i32, else in f32. NaN comes after all
/// numbers, and for a NaN value the result is n. The rows are not checked to be sorted. Throws ShapeError.
struct SearchSorted {
  struct Params {
    bool right = false;
    const char* name = "searchsorted";
  };
  static constexpr OpInfo info{.name = "searchsorted",
                               .inputs = "sorted, values",
                               .policy_inputs = 0,
                               .differentiable = false,
                               .observed = Observed::kMoves};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};

// nonzero_positions(), runs_of() and extreme_position() wait for a GPU: the host must know their results or extents.

/// Returns the row-major positions (n) of the elements that are not 0. NaN is not 0.
Tensor nonzero_positions(const Tensor& x);

/// The runs of equal neighboring elements of x, in row-major order. NaN differs from NaN.
struct Runs {
  Tensor starts{};  ///< (n) position of the first element of each run
  Tensor group{};   ///< (x.numel()) number of the run that each element is in
  Tensor counts{};  ///< (n) length of each run
};
Runs runs_of(const Tensor& x);

/// Returns the position of the largest or smallest element in row-major order; a NaN is taken before any number. Throws
/// ShapeError if there are no elements.
std::int64_t extreme_position(const char* op, const Tensor& x, bool largest);

/// Returns how often each of 0 … bins - 1 occurs in `index` (i64) or, if `weights` is defined, the sum of its weights.
Tensor count_positions(const Tensor& index, std::int64_t bins, DType dtype, const Tensor& weights = {});

/// Divides [low, high] into `bins` equal parts. Returns for each element of x the number of its part; `bins` if none.
Tensor bins_of(const Tensor& x, double low, double high, std::int64_t bins);

}  // namespace binade::ops
