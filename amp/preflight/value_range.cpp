#include "binade/amp/preflight/value_range.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The range of some numbers; those that are no numbers (0 x inf, inf / inf) lie between the others.
ValueRange around(std::initializer_list<double> values) {
  ValueRange range{kInfinity, -kInfinity};
  for (const double x : values) {
    if (std::isnan(x)) continue;
    range.low = std::min(range.low, x);
    range.high = std::max(range.high, x);
  }
  return range.low <= range.high ? range : ValueRange{};
}

/// 0 x inf is 0: an infinite end stands for large numbers, not for infinity.
double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

}  // namespace

double rounded(double x, DType dtype) {
  switch (dtype) {
    case DType::f16: return float16::from_float(static_cast<float>(x)).to_float();
    case DType::bf16: return bfloat16::from_float(static_cast<float>(x)).to_float();
    case DType::f32: return static_cast<float>(x);
    default: return x;
  }
}

ValueRange rounded(const ValueRange& range, DType dtype) {
  return {rounded(range.low, dtype), rounded(range.high, dtype), range.peaks};
}

ValueRange hull(const ValueRange& a, const ValueRange& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

ValueRange combine(std::string_view op, const ValueRange& a, const ValueRange& b) {
  if (op == "add") return {a.low + b.low, a.high + b.high};
  if (op == "sub") return {a.low - b.high, a.high - b.low};
  if (op == "maximum") return {std::max(a.low, b.low), std::max(a.high, b.high)};
  if (op == "minimum") return {std::min(a.low, b.low), std::min(a.high, b.high)};
  if (op == "mul")
    return around({product(a.low, b.low), product(a.low, b.high), product(a.high, b.low), product(a.high, b.high)});
  if (op == "div" && !b.contains(0)) return around({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high});
  return {};
}

ValueRange range_of_sum(const ValueRange& term, std::int64_t terms, std::int64_t sums) {
  const auto n = static_cast<double>(terms);
  ValueRange sum{product(n, term.low), product(n, term.high)};
  // Each sum holds a term that is as large as terms get, and none below 0.
  if (term.peaks == sums && term.low >= 0) sum.low = std::max(sum.low, term.high + (n - 1) * term.low);
  return sum;
}

}  // namespace binade::amp
