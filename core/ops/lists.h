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
/// from these lists; kernels identify an op by its position. The rare ops are compiled once, in double; the others for
/// every instruction set, in float and in double (decision 0065).
using UnaryOps = OpList<struct Relu, struct Gelu, struct GeluTanh, struct Silu, struct Sigmoid, struct Tanh, struct Erf,
                        struct Exp, struct Log, struct Softplus, struct Sqrt, struct Pow, struct Square, struct Clamp,
                        struct Neg, struct Abs, struct AddScalar, struct MulScalar, struct DivScalar, struct ScalarSub,
                        struct ScalarDiv, struct LeakyRelu, struct Elu, struct Hardswish, struct Mish>;
using BinaryOps = OpList<struct Add, struct Sub, struct Mul, struct Div, struct Maximum, struct Minimum>;
using RareUnaryOps =
    OpList<struct Sin, struct Cos, struct Tan, struct Asin, struct Acos, struct Atan, struct Sinh, struct Cosh,
           struct Asinh, struct Acosh, struct Atanh, struct Log1p, struct Expm1, struct Log2, struct Log10, struct Exp2,
           struct Rsqrt, struct Erfinv, struct Lgamma, struct Digamma, struct Erfc, struct Sinc, struct I0, struct I1,
           struct Polygamma, struct Sign, struct Floor, struct Ceil, struct Trunc, struct Round, struct Frac,
           struct NanToNum, struct Selu, struct Celu, struct SoftplusBeta, struct Hardsigmoid, struct Hardtanh,
           struct Logsigmoid, struct Hardshrink, struct Softshrink, struct Tanhshrink, struct Threshold>;
using RareBinaryOps =
    OpList<struct Atan2, struct TensorPow, struct Fmod, struct Remainder, struct FloorDivide, struct Hypot,
           struct Copysign, struct LogAddExp, struct Xlogy, struct Prelu, struct NormSlope>;
using ElementLosses = OpList<struct Mse, struct L1, struct Huber, struct BceWithLogits, struct Bce, struct KlDiv>;

/// True if `Op` is in the list.
template <class Op, class... Ops>
constexpr bool contains(OpList<Ops...>) {
  return (std::is_same_v<Op, Ops> || ...);
}

/// Returns the position of `Op` in the list.
template <class Op, class... Ops>
constexpr int position_in(OpList<Ops...>) {
  static_assert((std::is_same_v<Op, Ops> || ...),
                "add the op to a list in lists.h: kernels are generated from the lists");
  int position = 0;
  (void)((std::is_same_v<Op, Ops> || (++position, false)) || ...);
  return position;
}

/// Identifies an elementwise op in calls of kernels.
struct Listed {
  int position = 0;
  bool rare = false;  ///< in RareUnaryOps or RareBinaryOps, not in UnaryOps or BinaryOps
};
/// Return the place of `Op` in the lists of ops with one and with two inputs.
template <class Op>
constexpr Listed listed_unary() {
  if constexpr (contains<Op>(RareUnaryOps{}))
    return {position_in<Op>(RareUnaryOps{}), true};
  else
    return {position_in<Op>(UnaryOps{}), false};
}
template <class Op>
constexpr Listed listed_binary() {
  if constexpr (contains<Op>(RareBinaryOps{}))
    return {position_in<Op>(RareBinaryOps{}), true};
  else
    return {position_in<Op>(BinaryOps{}), false};
}

/// Calls run(OpTag<Op>{}) for the op at `position` in the list.
template <class... Ops, class F>
void with_op(OpList<Ops...>, int position, F&& run) {
  int at = 0;
  (void)((at++ == position && (run(OpTag<Ops>{}), true)) || ...);
}

}  // namespace binade::ops
