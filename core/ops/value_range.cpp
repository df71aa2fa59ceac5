#include "binade/core/ops/value_range.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace binade {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns the smallest range that contains the numbers. NaN (from inf / inf) is ignored.
ValueRange around(std::initializer_list<double> values) {
  ValueRange range{kInfinity, -kInfinity};
  for (const double x : values) {
    if (std::isnan(x)) continue;
    range.low = std::min(range.low, x);
    range.high = std::max(range.high, x);
  }
  return range.low <= range.high ? range : ValueRange{};
}

/// Multiplies two ends of ranges. 0 times infinity is 0, because an infinite end means that no bound is known, not that
/// a value is infinite.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

double terms_of(const RangeInputs& in) {
  return in.numel > 0 && !in.inputs.empty() ? static_cast<double>(in.inputs[0].numel / in.numel) : 0;
}

}  // namespace

ValueRange hull(const ValueRange& a, const ValueRange& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

namespace ranges {

ValueRange sum(const RangeInputs& in, const void*) { return {in[0].low + in[1].low, in[0].high + in[1].high}; }
ValueRange difference(const RangeInputs& in, const void*) { return {in[0].low - in[1].high, in[0].high - in[1].low}; }
ValueRange product(const RangeInputs& in, const void*) {
  const ValueRange a = in[0], b = in[1];
  return around({times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)});
}
ValueRange quotient(const RangeInputs& in, const void*) {
  const ValueRange a = in[0], b = in[1];
  return b.contains(0) ? ValueRange{} : around({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high});
}
ValueRange maximum(const RangeInputs& in, const void*) {
  return {std::max(in[0].low, in[1].low), std::max(in[0].high, in[1].high)};
}
ValueRange minimum(const RangeInputs& in, const void*) {
  return {std::min(in[0].low, in[1].low), std::min(in[0].high, in[1].high)};
}

ValueRange total(const RangeInputs& in, const void*) {
  const double n = terms_of(in);
  const ValueRange term = in[0];
  ValueRange sum{times(n, term.low), times(n, term.high)};
  // Each summed group contains the value term.high (ValueRange::peaks), and no term is negative, so each sum is at
  // least term.high plus n - 1 smallest terms.
  if (term.peaks == in.numel && term.low >= 0) sum.low = std::max(sum.low, term.high + (n - 1) * term.low);
  return sum;
}
ValueRange average(const RangeInputs& in, const void*) {
  const ValueRange sum = total(in);
  return {sum.low / terms_of(in), sum.high / terms_of(in)};
}
ValueRange largest(const RangeInputs& in, const void*) {
  return in[0].peaks == in.numel ? ValueRange{in[0].high, in[0].high} : within(in);
}

ValueRange within(const RangeInputs& in, const void*) { return hull(in[0], in[0]); }
ValueRange within_or_zero(const RangeInputs& in, const void*) { return hull(in[0], {0, 0}); }
ValueRange within_any(const RangeInputs& in, const void*) {
  ValueRange all = hull(in[0], in[0]);
  for (std::size_t i = 1; i < in.inputs.size(); ++i) all = hull(all, in[i]);
  return all;
}
ValueRange within_branches(const RangeInputs& in, const void*) { return hull(in[1], in[2]); }
ValueRange probability(const RangeInputs&, const void*) { return {0, 1}; }
ValueRange not_negative(const RangeInputs&, const void*) { return {0, kInfinity}; }
ValueRange not_positive(const RangeInputs&, const void*) { return {-kInfinity, 0}; }

}  // namespace ranges
}  // namespace binade
