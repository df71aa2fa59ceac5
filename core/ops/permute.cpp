#include "binade/core/ops/permute.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

std::vector<int> checked_order(const std::vector<int>& order, int rank) {
  std::vector<int> result;
  for (const int d : order) result.push_back(checked_axis(Permute::info, d, rank));
  std::vector<int> sorted = result;
  std::ranges::sort(sorted);
  check<ArgumentError>(static_cast<int>(order.size()) == rank && std::ranges::adjacent_find(sorted) == sorted.end(),
                       "{}: wanted each of {} dimensions once, got ({})", where(Permute::info.name), rank,
                       fmt::join(order, ", "));
  return result;
}

/// Copies x to y, whose dimension i is dimension order[i] of x. Both are contiguous.
void permute_into(const Tensor& x, const std::vector<int>& order, Tensor& y) {
  if (x.numel() == 0) return;
  PermuteCopy a{.element_bytes = size_of(x.dtype()), .rank = x.rank()};
  if (a.rank == 0) {
    a.rank = 1;
    a.dims[0] = a.from_stride[0] = 1;
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    a.dims[i] = x.dim(order[i]);
    a.from_stride[i] = 1;
    for (int d = order[i] + 1; d < x.rank(); ++d) a.from_stride[i] *= x.dim(d);
  }
  a.from = x.raw();
  a.to = y.mutable_raw();
  kernels(x.device()).permute(a);
}

}  // namespace

Tensors Permute::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  const Tensor x = in[0].contiguous_copy();
  const std::vector<int> order = checked_order(p.order, x.rank());
  std::vector<std::int64_t> dims;
  for (const int d : order) dims.push_back(x.dim(d));
  Tensor y = Tensor::empty(Shape(dims), x.dtype(), x.device());
  permute_into(x, order, y);
  return {y};
}

void Permute::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const std::vector<int> order = checked_order(p.order, ctx.inputs[0].shape.rank());
  std::vector<int> undo(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) undo[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  InputGradient g(gx, 0, gy[0].dtype());
  if (!g.needed()) return;
  permute_into(gy[0], undo, g.tensor());
  g.finish();
}

}  // namespace binade::ops
