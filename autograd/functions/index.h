#pragma once

#include <utility>
#include <vector>

#include "binade/autograd/variable.h"

/// Reading and writing at positions that index tensors (i64 or i32) name; see core/ops/index.h. Functions return new
/// tensors and never write into x. x may have any dtype unless values are added or multiplied; the result has the same
/// dtype. In `index`, `index_put` and `take`, negative indices count from the end; elsewhere they are errors, as in
/// PyTorch.
namespace binade {

/// How several values for one position are combined.
enum class ScatterReduce { kSum, kMean, kProd, kAmax, kAmin };
/// How embedding_bag() combines the rows of a bag.
enum class BagMode { kSum, kMean, kMax };

/// y[…, j, …] = x[…, index[…, j, …], …] along `axis`. The index has the rank of x.
Variable gather(const Variable& x, int axis, const Variable& index);
/// Returns the positions `index` (n) along `axis` of x.
Variable index_select(const Variable& x, int axis, const Variable& index);
/// Like gather(), but x and index are broadcast against each other along other axes.
Variable take_along_dim(const Variable& x, const Variable& index, int axis);
/// Returns the elements of x at row-major positions, in the shape of `index`.
Variable take(const Variable& x, const Variable& index);

/// Returns x with source[…, j, …] at […, index[…, j, …], …]. Of several values for one position, the last one counts.
/// The source may be larger than the index, or a scalar.
Variable scatter(const Variable& x, int axis, const Variable& index, const Variable& source);
Variable scatter(const Variable& x, int axis, const Variable& index, double value);
/// Returns x plus all values for each position, added in the order of their positions.
Variable scatter_add(const Variable& x, int axis, const Variable& index, const Variable& source);
/// Combines all values for each position, and the value of x there if `include_self`.
Variable scatter_reduce(const Variable& x, int axis, const Variable& index, const Variable& source,
                        ScatterReduce reduce = ScatterReduce::kSum, bool include_self = true);

/// Like the scatter functions, but for whole slices: slice j of the source (along `axis`) belongs to position index[j].
Variable index_add(const Variable& x, int axis, const Variable& index, const Variable& source, double alpha = 1);
Variable index_copy(const Variable& x, int axis, const Variable& index, const Variable& source);
Variable index_fill(const Variable& x, int axis, const Variable& index, double value);
Variable index_reduce(const Variable& x, int axis, const Variable& index, const Variable& source, ScatterReduce reduce,
                      bool include_self = true);

/// Returns x[i, j, …] for index tensors i, j, … of the first axes, which broadcast. The result has the axes of the
/// index tensors, then the other axes of x.
Variable index(const Variable& x, const std::vector<Variable>& indices);
/// Returns x with `values` at x[i, j, …], or added there if `accumulate`. `values` broadcasts to the shape of
/// index(x, indices).
Variable index_put(const Variable& x, const std::vector<Variable>& indices, const Variable& values,
                   bool accumulate = false);

/// Returns the coordinates (n, rank) of the elements that are not 0, in row-major order. Waits for a GPU.
Variable nonzero(const Variable& x);
/// Returns the elements of x where the mask (u8 or bool; both are broadcast) is set, in row-major order. Waits for a
/// GPU.
Variable masked_select(const Variable& x, const Variable& mask);
/// Returns x with `value` where the mask, which broadcasts to x, is set.
Variable masked_fill(const Variable& x, const Variable& mask, double value);

/// Returns (bags, D): the rows of weight (V, D) at indices (n), combined in bags: bag b has the indices
/// from offsets[b] up to offsets[b + 1] (the last one: up to n). With indices (bags, m) and no offsets, each row is a
/// bag. An empty bag gives 0. `row_weights`, of the shape of the indices, multiply the rows before they are summed.
/// Reads the offsets on the host. Unlike embedding(), the result has the dtype of the weight under every policy.
Variable embedding_bag(const Variable& weight, const Variable& indices, const Variable& offsets = {},
                       BagMode mode = BagMode::kMean, const Variable& row_weights = {});
/// Combines consecutive slices of axis 0: segment s has lengths[s] slices. The lengths, which the host reads, must add
/// up to the extent. An empty segment gives 0 (sum), 1 (product), NaN (mean), -inf (largest), inf (smallest).
Variable segment_reduce(const Variable& x, const Variable& lengths, ScatterReduce reduce);

}  // namespace binade
