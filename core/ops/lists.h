#pragma once

#include <type_traits>

namespace binade::ops {

/// A list of op types.
template <class... Ops>
struct OpList {};

/// A value that stands for the type Op.
template <class Op>
struct OpTag {
  using type = Op;
};
/// Calls f(OpTag<Op>{}) for each op in a list.
template <class... Ops, class F>
void for_each_op(OpList<Ops...>, F&& f) {
  (f(OpTag<Ops>{}), ...);
}

/// All elementwise ops and element losses, which formulas.h defines. Kernels and the conformance suite are generated
/// from these lists; kernels identify an op by its position.
using UnaryOps =
    OpList<struct Relu, struct Gelu, struct GeluTanh, struct Silu, struct Sigmoid, struct Tanh, struct Erf, struct Exp,
           struct Log, struct Softplus, struct Sqrt, struct Pow, struct Square, struct Clamp, struct Neg, struct Abs,
           struct AddScalar, struct MulScalar, struct DivScalar, struct ScalarSub, struct ScalarDiv>;
using BinaryOps = OpList<struct Add, struct Sub, struct Mul, struct Div, struct Maximum, struct Minimum>;
using ElementLosses = OpList<struct Mse, struct L1, struct Huber, struct BceWithLogits, struct Bce, struct KlDiv>;

/// Returns the position of `Op` in the list.
template <class Op, class... Ops>
constexpr int position_in(OpList<Ops...>) {
  static_assert((std::is_same_v<Op, Ops> || ...),
                "add the op to a list in lists.h: kernels are generated from the lists");
  int position = 0;
  (void)((std::is_same_v<Op, Ops> || (++position, false)) || ...);
  return position;
}

/// Calls run(OpTag<Op>{}) for the op at `position` in the list.
template <class... Ops, class F>
void with_op(OpList<Ops...>, int position, F&& run) {
  int at = 0;
  (void)((at++ == position && (run(OpTag<Ops>{}), true)) || ...);
}

}  // namespace binade::ops
