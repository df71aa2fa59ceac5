#pragma once

#include "binade/core/ops/binary.h"
#include "binade/core/ops/element_losses.h"
#include "binade/core/ops/unary.h"

namespace binade::ops {

template <class... Ops>
struct OpList {};

/// Calls f(OpTag<Op>{}) for each op of a list.
template <class Op>
struct OpTag {
  using type = Op;
};
template <class... Ops, class F>
void for_each_op(OpList<Ops...>, F&& f) {
  (f(OpTag<Ops>{}), ...);
}

/// Every elementwise op and loss. Kernels, their registration and the conformance suite are generated from these lists.
using UnaryOps = OpList<Relu, Gelu, GeluTanh, Silu, Sigmoid, Tanh, Erf, Exp, Log, Softplus, Sqrt, Pow, Square, Clamp,
                        Neg, Abs, AddScalar, MulScalar, DivScalar, ScalarSub, ScalarDiv>;
using BinaryOps = OpList<Add, Sub, Mul, Div, Maximum, Minimum>;
using ElementLosses = OpList<Mse, L1, Huber, BceWithLogits, Bce, KlDiv>;

}  // namespace binade::ops
