#include "binade/autograd/functions/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/dropout.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/where.h"
#include "binade/core/step_context.h"

namespace binade {
namespace detail {
namespace {

/// Returns the parameters of an op from their values.
template <class Params>
Params params_of([[maybe_unused]] const double* given) {
  if constexpr (requires { Params{1.0, 1.0, 1.0}; })
    return {given[0], given[1], given[2]};
  else if constexpr (requires { Params{1.0, 1.0}; })
    return {given[0], given[1]};
  else if constexpr (requires { Params{1.0}; })
    return {given[0]};
  else
    return {};
}

using Function = Variable (*)(std::initializer_list<double>, std::initializer_list<Variable>);
template <class... Ops>
constexpr std::array<Function, sizeof...(Ops)> functions_of(ops::OpList<Ops...>) {
  return {&elementwise<Ops>...};
}
// Instantiates elementwise<Op> for every op of the lists.
[[gnu::used]] const std::array kUnary = functions_of(ops::UnaryOps{});
[[gnu::used]] const std::array kRareUnary = functions_of(ops::RareUnaryOps{});
[[gnu::used]] const std::array kBinary = functions_of(ops::BinaryOps{});
[[gnu::used]] const std::array kRareBinary = functions_of(ops::RareBinaryOps{});

}  // namespace

template <class Op>
Variable elementwise(std::initializer_list<double> params, std::initializer_list<Variable> inputs) {
  return apply_one<Op>(params_of<typename Op::Params>(params.begin()), inputs);
}

Variable scalar_like(const Variable& x, std::int64_t value, DType dtype) {
  // Fills on the device, because a captured step cannot copy from the host. A fill takes a double, which cannot hold
  // every i64, so large values are composed of two parts.
  const auto filled = [&](std::int64_t whole, DType as) -> Variable {
    return Tensor::full(Shape{}, static_cast<double>(whole), as, x.device());
  };
  constexpr std::int64_t kExact = std::int64_t{1} << 53, kLow = std::int64_t{1} << 32;
  if (value >= -kExact && value <= kExact) return filled(value, dtype);
  const std::int64_t high = value >> 32;
  return cast(filled(high, DType::i64) * filled(kLow, DType::i64) + filled(value - high * kLow, DType::i64), dtype);
}

Variable integer_operand_for(const Variable& x, std::int64_t value) {
  const DType dtype = x.dtype() == DType::boolean ? DType::i64 : x.dtype();
  // A value that does not fit wraps around, like the op's results. A conversion by the fill would saturate it.
  switch (dtype) {
    case DType::i32: value = static_cast<std::int32_t>(value); break;
    case DType::u8: value = static_cast<std::uint8_t>(value); break;
    default: break;
  }
  return scalar_like(x, value, dtype);
}

Variable whole_where(const Variable& condition, const Variable& a, const Variable& b) {
  const Variable taken = condition != 0;
  if (a.dtype() == DType::boolean && b.dtype() == DType::boolean)
    return logical_or(logical_and(taken, a), logical_and(logical_not(taken), b));
  return b + (a - b) * cast(taken, promoted(a.dtype(), b.dtype()));  // exact: if a - b wraps around, the sum wraps back
}

Variable whole_clamp(const Variable& x, double low, double high) {
  check<ArgumentError>(low <= high, "{}: wanted low <= high, got low {} and high {}", where(ops::Clamp::info.name), low,
                       high);
  const auto [least, most] = [&]() -> std::pair<double, double> {
    switch (x.dtype()) {
      case DType::u8: return {0, 255};
      case DType::i32: return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
      case DType::boolean: return {0, 1};
      default: return {-0x1p63, 0x1p63};
    }
  }();
  const auto whole = [](double bound) {
    return bound >= 0x1p63 ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(bound);
  };
  const std::int64_t from = whole(std::clamp(std::ceil(low), least, most)),
                     to = whole(std::clamp(std::floor(high), least, most));
  return minimum(maximum(x, scalar_like(x, from, x.dtype())), scalar_like(x, to, x.dtype()));
}

}  // namespace detail

Variable where(const Variable& condition, const Variable& a, const Variable& b) {
  if (!is_floating(a.dtype()) && !is_floating(b.dtype())) return detail::whole_where(condition, a, b);
  return apply_one<ops::Where>({}, {condition, a, b});
}

Variable dropout(const Variable& x, double p) { return apply_one<ops::Dropout>({p}, {x}); }
Variable cast(const Variable& x, DType to) { return x.dtype() == to ? x : apply_one<ops::Cast>({to}, {x}); }

}  // namespace binade
