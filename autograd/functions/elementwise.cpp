#include "binade/autograd/functions/elementwise.h"

#include <cmath>
#include <limits>
#include <utility>

#include "binade/autograd/functions/comparison.h"

namespace binade {
namespace detail {

Variable scalar_beside(const Variable& x, std::int64_t value, DType dtype) {
  return Tensor::from(std::vector{value}, Shape{}).to(dtype).to(x.device());
}

Variable whole_beside(const Variable& x, std::int64_t value) {
  const DType dtype = x.dtype() == DType::boolean ? DType::i64 : x.dtype();
  // Wraps around like the results of the op; a conversion would saturate or be undefined.
  switch (dtype) {
    case DType::i32: value = static_cast<std::int32_t>(value); break;
    case DType::u8: value = static_cast<std::uint8_t>(value); break;
    default: break;
  }
  return scalar_beside(x, value, dtype);
}

Variable whole_where(const Variable& condition, const Variable& a, const Variable& b) {
  const Variable taken = condition != 0;
  if (a.dtype() == DType::boolean && b.dtype() == DType::boolean)
    return logical_or(logical_and(taken, a), logical_and(logical_not(taken), b));
  return b + (a - b) * cast(taken, promoted(a.dtype(), b.dtype()));  // exact, because both sums wrap around alike
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
  return minimum(maximum(x, scalar_beside(x, from, x.dtype())), scalar_beside(x, to, x.dtype()));
}

}  // namespace detail

}  // namespace binade
