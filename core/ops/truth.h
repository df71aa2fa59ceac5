#pragma once

#include "binade/core/ops/elementwise.h"

/// Elementwise ops whose results are truth values or bits. Inputs of any dtype broadcast as in NumPy. Comparisons and
/// logical ops give bool; every operand but 0 is true, also NaN. Two whole operands are compared as i64; if one is
/// floating, both are compared as f64, in which an i64 above 2^53 is rounded. These ops have no gradient.
namespace binade::ops {

namespace detail {
constexpr OpInfo truth_info(OpInfo info, const char* inputs = "a, b") {
  info.inputs = inputs;
  info.numerics = kRoundedOnce;
  info.policy_inputs = 0;
  info.differentiable = false;
  info.observed = Observed::kMoves;
  info.range = ranges::probability;
  return info;
}
constexpr OpInfo bits_info(OpInfo info, const char* inputs = "a, b") {
  info = truth_info(info, inputs);
  info.range = nullptr;
  return info;
}
}  // namespace detail

/// Base of ops that give bool. A derived struct defines `info` and `Exact`, its formula (exact.h).
template <class Op>
struct Truth {
  using Params = NoParams;
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) {
    return {detail::exact(Op::info, position_in<typename Op::Exact>(ExactOps{}), in, DType::boolean)};
  }
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};

/// Base of ops on whole numbers or their bits (i64, i32, u8, bool), whose result has the wider dtype of both inputs.
/// Throws DTypeError for other dtypes.
template <class Op>
struct OnBits {
  using Params = NoParams;
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) {
    for (const Tensor& x : in)
      check<DTypeError>(!is_floating(x.dtype()), "{}: wanted whole numbers (i64, i32, u8, bool), got {}",
                        where(Op::info.name), name_of(x.dtype()));
    return {detail::whole<typename Op::Exact>(Op::info, in)};
  }
  static void backward(const OpContext&, std::span<const Tensor>, GradSink&, const Params&) {}
};

/// a == b. NaN equals nothing.
struct Equal : Truth<Equal> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "eq"});
  using Exact = exact::Equal;
};
/// a != b, true for NaN.
struct NotEqual : Truth<NotEqual> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "ne"});
  using Exact = exact::NotEqual;
};
struct Less : Truth<Less> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "lt"});
  using Exact = exact::Less;
};
struct LessEqual : Truth<LessEqual> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "le"});
  using Exact = exact::LessEqual;
};
struct Greater : Truth<Greater> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "gt"});
  using Exact = exact::Greater;
};
struct GreaterEqual : Truth<GreaterEqual> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "ge"});
  using Exact = exact::GreaterEqual;
};
struct LogicalAnd : Truth<LogicalAnd> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "logical_and"});
  using Exact = exact::LogicalAnd;
};
struct LogicalOr : Truth<LogicalOr> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "logical_or"});
  using Exact = exact::LogicalOr;
};
struct LogicalXor : Truth<LogicalXor> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "logical_xor"});
  using Exact = exact::LogicalXor;
};
struct LogicalNot : Truth<LogicalNot> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "logical_not"}, "x");
  using Exact = exact::LogicalNot;
};
struct IsNan : Truth<IsNan> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "isnan"}, "x");
  using Exact = exact::IsNan;
};
struct IsInf : Truth<IsInf> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "isinf"}, "x");
  using Exact = exact::IsInf;
};
struct IsFinite : Truth<IsFinite> {
  static constexpr OpInfo info = detail::truth_info(OpInfo{.name = "isfinite"}, "x");
  using Exact = exact::IsFinite;
};

struct BitwiseAnd : OnBits<BitwiseAnd> {
  static constexpr OpInfo info = detail::bits_info(OpInfo{.name = "bitwise_and"});
  using Exact = exact::BitAnd;
};
struct BitwiseOr : OnBits<BitwiseOr> {
  static constexpr OpInfo info = detail::bits_info(OpInfo{.name = "bitwise_or"});
  using Exact = exact::BitOr;
};
struct BitwiseXor : OnBits<BitwiseXor> {
  static constexpr OpInfo info = detail::bits_info(OpInfo{.name = "bitwise_xor"});
  using Exact = exact::BitXor;
};
/// ~x; of a bool, its negation.
struct BitwiseNot : OnBits<BitwiseNot> {
  static constexpr OpInfo info = detail::bits_info(OpInfo{.name = "bitwise_not"}, "x");
  using Exact = exact::BitNot;
};
/// a 2^b, wrapped around. A shift by fewer than 0 or more than 63 places gives 0.
struct LeftShift : OnBits<LeftShift> {
  static constexpr OpInfo info = detail::bits_info(OpInfo{.name = "bitwise_left_shift"});
  using Exact = exact::ShiftLeft;
};
/// a / 2^b, rounded down. A shift by fewer than 0 or more than 63 places gives 0, or -1 for a negative a.
struct RightShift : OnBits<RightShift> {
  static constexpr OpInfo info = detail::bits_info(OpInfo{.name = "bitwise_right_shift"});
  using Exact = exact::ShiftRight;
};

/// The greatest common divisor, at least 0; gcd(0, b) = |b|.
struct Gcd : OnBits<Gcd> {
  static constexpr OpInfo info = detail::bits_info(OpInfo{.name = "gcd"});
  using Exact = exact::Gcd;
};
/// The least common multiple: at least 0, unless it does not fit and wraps around.
struct Lcm : OnBits<Lcm> {
  static constexpr OpInfo info = detail::bits_info(OpInfo{.name = "lcm"});
  using Exact = exact::Lcm;
};

}  // namespace binade::ops
