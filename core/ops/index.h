#pragma once

#include "binade/core/kernels/index.h"
#include "binade/core/ops/move.h"

/// Reading and writing at positions that an index tensor (i64 or i32) names. An index outside [0, extent) of its axis,
/// such as a negative one, causes a DataError that names op, position, index and extent (on a GPU, the next wait for
/// the device throws it; decision 0019). Contributions to one element are combined in the order of their positions, so
/// bits do not depend on threads (decision 0066).
namespace binade::ops {

/// y[…, j, …] = x[…, index[…, j, …], …] along `axis`. The index has the rank of x; along other axes it must not be
/// larger than x. y has the index's shape and the dtype of x, which may be any.
///
///   gx[p] = sum of the gy whose index refers to p, in f32 (f64 for f64) and in the order of positions
///
/// Saves the index. Throws ArgumentError, ShapeError, DTypeError, DataError.
struct Gather {
  struct Params {
    int axis = -1;
    const char* name = "gather";  ///< the function that the user called, for errors
  };
  static constexpr OpInfo info{.name = "gather",
                               .inputs = "x, index",
                               .numerics = {.ulp_f32 = 0, .ulp_half = 0.5},
                               .policy_inputs = 0b1,
                               .observed = Observed::kMoves,
                               .range = ranges::within};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// y[…, j, …] = x[…, index[j], …] along `axis`, for an index of rank 1 (or 0, for one position). Otherwise like Gather.
struct IndexSelect {
  using Params = Gather::Params;
  static constexpr OpInfo info{.name = "index_select",
                               .inputs = "x, index",
                               .numerics = {.ulp_f32 = 0, .ulp_half = 0.5},
                               .policy_inputs = 0b1,
                               .observed = Observed::kMoves,
                               .range = ranges::within};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Copies x to y, then combines source[…, j, …] with y[…, index[…, j, …], …] along `axis`. The index has the rank of x;
/// along other axes it must not be larger than x. The source has the index's shape or one element. `by_row`: the index
/// has rank 1, and the source has the shape of x with extent index.numel() at the axis.
///
///   kAssign: the last contribution wins. kMean: sum / number. kLargest, kSmallest: NaN wins.
///   include_self: if false, the values of x at positions that the index names are ignored
///
/// Halves are summed in f32 and rounded once. Integers wrap, and their mean is rounded down; for bools, kAdd is a
/// logical or. Gradients: elements of x that the index does not name get gy. kAssign: gy goes to the last contribution.
/// kMean: gy is divided by the number of contributions. kLargest, kSmallest: gy is divided equally among those that
/// equal the result. kProduct: gy times the product of the other factors. Saves the index, and x, source and y for
/// kProduct, kLargest and kSmallest. Throws like Gather.
struct Scatter {
  struct Params {
    int axis = -1;
    Scattering how = Scattering::kAdd;
    bool include_self = true;
    bool by_row = false;
    const char* name = "scatter";  ///< the function that the user called, for errors
  };
  static constexpr OpInfo info{.name = "scatter",
                               .inputs = "x, index, source",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 2, .ulp_half = 1},
                               .policy_inputs = 0b101,
                               .observed = Observed::kByScan};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Combines index tensors, one for each of the first dimensions of `shape`, into row-major positions in these
/// dimensions. The index tensors are broadcast against each other; negative indices count from the end. Throws
/// DataError with op, position, index and extent.
Tensor linear_index(const char* op, const std::vector<Tensor>& indices, const Shape& shape);

/// Returns the coordinates (n, rank) in `shape` of n row-major positions.
Tensor coordinates_of(const Tensor& flat, const Shape& shape);

}  // namespace binade::ops
