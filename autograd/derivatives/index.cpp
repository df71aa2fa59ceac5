#include "binade/autograd/functions/index.h"

#include <limits>

#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/derivatives/transposed.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/math.h"
#include "binade/core/ops/cumulate.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/rearrange.h"

namespace binade::derivatives {
namespace {

/// An inclusive scan along `axis` in log2(extent) steps. Each step doubles the number of elements that are combined in
/// each position.
template <class Combine>
Variable scan_of(const Variable& any, int axis, Combine combine) {
  Variable x = wide(any);
  const std::int64_t count = x.dim(axis);
  for (std::int64_t shift = 1; shift < count; shift *= 2)
    x = concat({narrow(x, axis, 0, shift),
                combine(narrow(x, axis, shift, count - shift), narrow(x, axis, 0, count - shift))},
               axis);
  return x;
}

Variables cumulate_gradient(const RecordedCall& call) {
  const auto& p = call.params<ops::Cumulate>();
  if (p.how == Cumulation::kSum) return transposed<ops::Cumulate>(call);
  if (call.described(0).shape.numel() == 0) return Variables(1);
  if (call.described(0).shape.rank() == 0) return {call.gy()};
  const auto f = [&](const Variables& x) {
    return scan_of(x[0], p.axis, [&](const Variable& a, const Variable& b) {
      return p.how == Cumulation::kProduct ? a * b : logaddexp(a, b);
    });
  };
  Variable gy = wide(call.gy());
  if (p.how == Cumulation::kLogSumExp) {  // as in the op's backward, a result of -inf has no gradient
    const Variable is_empty = Variable(call.saved(1)) == -std::numeric_limits<double>::infinity();
    gy = where(is_empty, Variable(Tensor::zeros(Shape{}, gy.dtype(), gy.value().device())), gy);
  }
  return by_composition({call.input(0, 0)}, f, gy);
}

/// The gradient of a contribution is gy at its target times a factor that the op's backward computes for gy = 1. The
/// factors are constants, except for products, which are refused.
Variables scatter_gradients(const RecordedCall& call) {
  const auto& p = call.params<ops::Scatter>();
  if (p.how == Scattering::kProduct) call.refuse("use the logarithm and scatter_add");
  const Tensor one = Tensor::full(call.gy().shape(), 1, call.gy().dtype(), call.gy().device());
  const Tensors factors = call.backward_of({one});
  const Variable gy = wide(call.gy());
  Variables g(3);
  if (call.needs(0)) g[0] = gy * factors[0];
  if (!call.needs(2)) return g;
  const Tensor& index = call.saved(0);
  const Variable of_terms = p.by_row ? index_select(gy, p.axis, index) : gather(gy, p.axis, index);
  if (call.described(2).shape == of_terms.shape())
    g[2] = of_terms * factors[2];
  else
    call.refuse("give the source the shape of the index");
  return g;
}

constexpr Entry kEntries[] = {
    {&ops::Gather::info, [](const RecordedCall& c) { return transposed<ops::Gather>(c, {c.saved(0)}); }},
    {&ops::IndexSelect::info, [](const RecordedCall& c) { return transposed<ops::IndexSelect>(c, {c.saved(0)}); }},
    {&ops::Scatter::info, scatter_gradients},
    {&ops::Rearrange::info,
     [](const RecordedCall& c) {
       ops::Rearrange::Params p = c.params<ops::Rearrange>();
       p.adjoint = !p.adjoint;
       p.fill = 0;
       return Variables{apply_one<ops::Rearrange>(p, {c.gy()})};
     }},
    {&ops::Expand::info, [](const RecordedCall& c) { return transposed<ops::Expand>(c); }},
    {&ops::Cumulate::info, cumulate_gradient},
};

}  // namespace

std::span<const Entry> derivatives_of_index_ops() { return kEntries; }

}  // namespace binade::derivatives
