#include "binade/core/ops/binary.h"

#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/operands.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/core/ops/exact.h"
#include "binade/core/ops/fold.h"
#include "binade/core/ops/where.h"

namespace binade::derivatives {
namespace {

const Shape& a_shape(const RecordedCall& call) { return call.described(0).shape; }
const Shape& b_shape(const RecordedCall& call) { return call.described(1).shape; }

Variables mul_gradients(const RecordedCall& call) {
  const Operands in = Operands::of<ops::Mul>(call);
  Variables g(2);
  if (call.needs(0)) g[0] = sum_to(wide(call.gy()) * in.b, a_shape(call));
  if (call.needs(1)) g[1] = sum_to(wide(call.gy()) * in.a, b_shape(call));
  return g;
}

Variables div_gradients(const RecordedCall& call) {
  const Operands in = Operands::of<ops::Div>(call);
  const Variable quotient = wide(call.gy()) / in.b;
  Variables g(2);
  if (call.needs(0)) g[0] = sum_to(quotient, a_shape(call));
  if (call.needs(1)) g[1] = sum_to(-quotient * (in.a / in.b), b_shape(call));
  return g;
}

/// Gradients of maximum and minimum: gy times 0, 1 or 1/2. The op's backward kernel computes these constant factors.
template <class Op>
Variables share_gradients(const RecordedCall& call) {
  const Operands in = Operands::of<Op>(call);
  Variables g(2);
  for (int i = 0; i < 2; ++i) {
    if (!call.needs(i)) continue;
    const Shape& shape = call.gy().shape();
    const DType dtype = accumulate_dtype(call.gy().dtype());
    const Tensor one = Tensor::full(shape, 1, dtype, call.gy().device());
    Tensor share = Tensor::empty(shape, dtype, call.gy().device());
    ops::detail::binary_backward(ops::listed_binary<Op>(), i, in.a.value(), in.b.value(), one, share,
                                 OpParams(call.params<Op>()));
    g[static_cast<std::size_t>(i)] = sum_to(wide(call.gy()) * share, call.described(i).shape);
  }
  return g;
}

Variables where_gradients(const RecordedCall& call) {
  const Variable condition = call.saved(0);
  const Tensor zero = Tensor::zeros(Shape{}, call.gy().dtype(), call.gy().device());
  Variables g(3);
  if (call.needs(1)) g[1] = sum_to(where(condition, call.gy(), zero), call.described(1).shape);
  if (call.needs(2)) g[2] = sum_to(where(condition, zero, call.gy()), call.described(2).shape);
  return g;
}

constexpr Entry kEntries[] = {
    {&ops::Add::info,
     [](const RecordedCall& c) -> Variables {
       return {sum_to(c.gy(), a_shape(c)), sum_to(c.gy(), b_shape(c))};
     }},
    {&ops::Sub::info,
     [](const RecordedCall& c) -> Variables {
       return {sum_to(c.gy(), a_shape(c)), -sum_to(c.gy(), b_shape(c))};
     }},
    {&ops::Mul::info, mul_gradients},
    {&ops::Div::info, div_gradients},
    {&ops::Maximum::info, share_gradients<ops::Maximum>},
    {&ops::Minimum::info, share_gradients<ops::Minimum>},
    {&ops::Where::info, where_gradients},
};

}  // namespace

std::span<const Entry> derivatives_of_binary_ops() { return kEntries; }

}  // namespace binade::derivatives
