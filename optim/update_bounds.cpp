#include "binade/optim/update_bounds.h"

#include <algorithm>
#include <cmath>

#include "binade/optim/gradient_scan.h"

namespace binade::optim {

Magnitudes magnitudes_of(const BlockExtremes& extremes) {
  return {magnitude_of(extremes.value), magnitude_of(extremes.moment1), magnitude_of(extremes.moment2)};
}

bool UpdateBounds::apply(std::int64_t updates) const {
  return !known().empty() && moment_dtype_ == DType::f32 && updates >= distrusted_until_;
}

const std::vector<Magnitudes>& UpdateBounds::known() const {
  static const std::vector<Magnitudes> kUnknown;
  return parameters_.other_writes() == other_writes_ ? known_ : kUnknown;
}

void UpdateBounds::remember(std::vector<Magnitudes> magnitudes) {
  if (parameters_.other_writes() == other_writes_)
    known_ = std::move(magnitudes);
  else
    forget();
}

void UpdateBounds::accept_writes() {
  if (parameters_.other_writes() == other_writes_) return;
  forget();
  other_writes_ = parameters_.other_writes();
}

void UpdateBounds::distrust_moments(std::int64_t updates) {
  constexpr std::int64_t kUpdates = 100;
  forget();
  distrusted_until_ = updates + kUpdates;
}

Magnitudes UpdateBounds::after(const Magnitudes& before, std::size_t slice, double gradient,
                               const StepInput& input) const {
  if (input.clip_value > 0) gradient = std::min(gradient, input.clip_value);
  Magnitudes after = rule_(before, gradient, slice, input);
  // The factor is a margin for rounding to float and to the 16-bit copy.
  for (double* x : {&after.value, &after.moment1, &after.moment2}) *x *= 1.001;
  return after;
}

bool UpdateBounds::within(const Magnitudes& m, std::size_t slice, double share) const {
  const double moments = share * moment_limit();
  return m.value <= share * value_limit(slice) && m.moment1 <= moments && m.moment2 <= moments;
}

double UpdateBounds::value_limit(std::size_t slice) const {
  const FlatParameters::Slice& s = parameters_.slices()[slice];
  const double held = range_of(s.variable.dtype()).largest;
  return s.low.defined() ? std::min(held, range_of(s.low.dtype()).largest) : held;
}

double UpdateBounds::moment_limit() const { return range_of(moment_dtype_).largest; }

double UpdateBounds::gradient_limit(std::size_t slice, const StepInput& input, double share) const {
  const auto fits = [&](double gradient) { return within(after(known_[slice], slice, gradient, input), slice, share); };
  if (!fits(0)) return -1;
  int low = -150, high = 128;
  if (!fits(std::ldexp(1.0, low))) return 0;
  if (fits(std::ldexp(1.0, high))) return std::ldexp(1.0, high);  // 2^128 is above every float
  while (high - low > 1) {  // bisection of the exponent, because the bound never falls when the gradient grows
    const int middle = low + (high - low) / 2;
    (fits(std::ldexp(1.0, middle)) ? low : high) = middle;
  }
  return std::ldexp(1.0, low);
}

}  // namespace binade::optim
