#include "binade/autograd/functions/comparison.h"

#include "binade/autograd/apply.h"
#include "binade/core/ops/truth.h"

namespace binade {

Variable eq(const Variable& a, const Variable& b) { return apply_one<ops::Equal>({}, {a, b}); }
Variable ne(const Variable& a, const Variable& b) { return apply_one<ops::NotEqual>({}, {a, b}); }
Variable lt(const Variable& a, const Variable& b) { return apply_one<ops::Less>({}, {a, b}); }
Variable le(const Variable& a, const Variable& b) { return apply_one<ops::LessEqual>({}, {a, b}); }
Variable gt(const Variable& a, const Variable& b) { return apply_one<ops::Greater>({}, {a, b}); }
Variable ge(const Variable& a, const Variable& b) { return apply_one<ops::GreaterEqual>({}, {a, b}); }
Variable logical_and(const Variable& a, const Variable& b) { return apply_one<ops::LogicalAnd>({}, {a, b}); }
Variable logical_or(const Variable& a, const Variable& b) { return apply_one<ops::LogicalOr>({}, {a, b}); }
Variable logical_xor(const Variable& a, const Variable& b) { return apply_one<ops::LogicalXor>({}, {a, b}); }
Variable logical_not(const Variable& x) { return apply_one<ops::LogicalNot>({}, {x}); }
Variable isnan(const Variable& x) { return apply_one<ops::IsNan>({}, {x}); }
Variable isinf(const Variable& x) { return apply_one<ops::IsInf>({}, {x}); }
Variable isfinite(const Variable& x) { return apply_one<ops::IsFinite>({}, {x}); }
Variable bitwise_and(const Variable& a, const Variable& b) { return apply_one<ops::BitwiseAnd>({}, {a, b}); }
Variable bitwise_or(const Variable& a, const Variable& b) { return apply_one<ops::BitwiseOr>({}, {a, b}); }
Variable bitwise_xor(const Variable& a, const Variable& b) { return apply_one<ops::BitwiseXor>({}, {a, b}); }

Variable bitwise_left_shift(const Variable& a, const Variable& b) { return apply_one<ops::LeftShift>({}, {a, b}); }

Variable bitwise_right_shift(const Variable& a, const Variable& b) { return apply_one<ops::RightShift>({}, {a, b}); }

Variable bitwise_not(const Variable& x) { return apply_one<ops::BitwiseNot>({}, {x}); }
Variable gcd(const Variable& a, const Variable& b) { return apply_one<ops::Gcd>({}, {a, b}); }
Variable lcm(const Variable& a, const Variable& b) { return apply_one<ops::Lcm>({}, {a, b}); }
Variable operator&(const Variable& a, const Variable& b) { return bitwise_and(a, b); }
Variable operator|(const Variable& a, const Variable& b) { return bitwise_or(a, b); }
Variable operator^(const Variable& a, const Variable& b) { return bitwise_xor(a, b); }
Variable operator~(const Variable& x) { return bitwise_not(x); }
Variable operator==(const Variable& a, const Variable& b) { return eq(a, b); }
Variable operator!=(const Variable& a, const Variable& b) { return ne(a, b); }
Variable operator<(const Variable& a, const Variable& b) { return lt(a, b); }
Variable operator<=(const Variable& a, const Variable& b) { return le(a, b); }
Variable operator>(const Variable& a, const Variable& b) { return gt(a, b); }
Variable operator>=(const Variable& a, const Variable& b) { return ge(a, b); }

}  // namespace binade
