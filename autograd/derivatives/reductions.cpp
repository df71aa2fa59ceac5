#include <algorithm>

#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/derivatives/transposed.h"
#include "binade/core/ops/fold.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/rare_binary.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/softmax.h"

namespace binade::derivatives {
namespace {

/// Returns the sum along `axis`, which is kept with extent 1. The sum of a scalar is the scalar.
Variable sum_along(const Variable& x, int axis) { return x.value().rank() == 0 ? x : sum(x, {axis}, true); }

Variables softmax_gradient(const RecordedCall& call) {
  const int axis = call.params<ops::Softmax>().axis;
  const Variable y = wide(call.output(0, 0)), gy = wide(call.gy());
  return {y * (gy - sum_along(gy * y, axis))};
}

Variables log_softmax_gradient(const RecordedCall& call) {
  const int axis = call.params<ops::LogSoftmax>().axis;
  const Variable y = wide(call.output(0, 0)), gy = wide(call.gy());
  return {gy - exp(y) * sum_along(gy, axis)};
}

/// The gradient of an element is gy times a constant share, which the op's backward computes for gy = 1.
template <class Op>
Variables share_gradient(const RecordedCall& call, const std::vector<int>& axes) {
  const Shape kept = ops::keepdim_shape(call.described(0).shape, axes, Op::info.name);
  const Tensor one = Tensor::full(call.gy().shape(), 1, call.gy().dtype(), call.gy().device());
  const std::size_t outputs = std::is_same_v<typename Op::Params, ops::AlongParams> ? 2 : 1;
  Tensors ones(outputs);
  ones[0] = one;
  return {wide(shaped(call.gy(), kept)) * call.backward_of(ones).front()};
}
template <class Op>
Variables extremum_gradient(const RecordedCall& call) {
  return share_gradient<Op>(call, call.params<Op>().axes);
}
template <class Op>
Variables along_gradient(const RecordedCall& call) {
  if (call.described(0).shape.rank() == 0) return {call.gy()};
  return share_gradient<Op>(call, {call.params<Op>().axis});
}

Variables norm_gradient(const RecordedCall& call) {
  const auto& p = call.params<ops::Norm>();
  const Shape kept = ops::keepdim_shape(call.described(0).shape, p.axes, ops::Norm::info.name);
  const Variable y = shaped(wide(call.output(0, 1)), kept);
  return {wide(shaped(call.gy(), kept)) * apply_one<ops::NormSlope>({p.p}, {wide(call.input(0, 0)), y})};
}

/// Returns the product of x over `axes` (over all if empty) as (rows, 1). It multiplies the first half of the elements
/// by the second until one is left, so that its derivative does not divide by an element, which may be 0.
Variable product_of_halves(const Variable& any, const std::vector<int>& axes) {
  const int rank = any.value().rank();
  std::vector<int> kept, order;
  std::int64_t rows = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const bool reduced = axes.empty() ||
                         std::ranges::any_of(axes, [&](int a) { return (a < 0 ? a + rank : a) == axis; });
    (reduced ? order : kept).push_back(axis);
    if (!reduced) rows *= any.dim(axis);
  }
  order.insert(order.begin(), kept.begin(), kept.end());
  Variable x = wide(any);
  if (rank > 1) x = permute(x, order);
  x = reshape(x, {rows, x.value().numel() / rows});
  while (x.dim(1) > 1) {
    const std::int64_t half = x.dim(1) / 2, rest = x.dim(1) % 2;
    const Variable y = narrow(x, 1, 0, half) * narrow(x, 1, half, half);
    x = rest == 0 ? y : concat({y, narrow(x, 1, 2 * half, 1)}, 1);
  }
  return x;
}

Variables prod_gradient(const RecordedCall& call) {
  if (call.described(0).shape.numel() == 0) return Variables(1);
  const auto f = [&](const Variables& x) { return product_of_halves(x[0], call.params<ops::Prod>().axes); };
  return by_composition({call.input(0, 0)}, f, wide(call.gy()));
}

constexpr Entry kEntries[] = {
    {&ops::Sum::info, [](const RecordedCall& c) { return transposed<ops::Sum>(c); }},
    {&ops::Mean::info, [](const RecordedCall& c) { return transposed<ops::Mean>(c); }},
    {&ops::Max::info, extremum_gradient<ops::Max>},
    {&ops::Min::info, extremum_gradient<ops::Min>},
    {&ops::MaxAlong::info, along_gradient<ops::MaxAlong>},
    {&ops::MinAlong::info, along_gradient<ops::MinAlong>},
    {&ops::Prod::info, prod_gradient},
    {&ops::Norm::info, norm_gradient},
    {&ops::Softmax::info, softmax_gradient},
    {&ops::LogSoftmax::info, log_softmax_gradient},
};

}  // namespace

std::span<const Entry> derivatives_of_reductions() { return kEntries; }

}  // namespace binade::derivatives
