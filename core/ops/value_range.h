#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace binade {

/// Bounds of the values of a tensor. An infinite end means that no bound is known.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::int64_t peaks = 0;  ///< if > 0: number of groups of values, each of which attains `high` (as in x - max(x))

  constexpr bool contains(double x) const { return low <= x && x <= high; }
};

/// Returns the smallest range that contains both, with peaks 0.
ValueRange hull(const ValueRange& a, const ValueRange& b);

/// What an op's range is computed from.
struct RangeInputs {
  struct Input {
    ValueRange range{};
    std::int64_t numel = 0;  ///< 0: the input was left out
  };
  std::span<const Input> inputs{};
  std::int64_t numel = 0;  ///< of output 0

  /// Returns an unbounded range for an input that does not exist.
  ValueRange operator[](std::size_t i) const { return i < inputs.size() ? inputs[i].range : ValueRange{}; }
};

/// Returns the values that output 0 can have before rounding, given those of the inputs. `params` are the parameters of
/// the call.
using RangeFunction = ValueRange (*)(const RangeInputs& in, const void* params);

namespace detail {
template <auto F>
struct TypedRange;
template <class Params, ValueRange (*F)(const RangeInputs&, const Params&)>
struct TypedRange<F> {
  static ValueRange of(const RangeInputs& in, const void* params) { return F(in, *static_cast<const Params*>(params)); }
};
}  // namespace detail

/// Adapts an op's own `static ValueRange range(const RangeInputs& in, const Params& p)`, declared before its info, for
/// OpInfo::range: `.range = typed_range<range>`.
template <auto F>
inline constexpr RangeFunction typed_range = detail::TypedRange<F>::of;

/// Ranges that need no parameters: `.range = ranges::sum`.
namespace ranges {

ValueRange sum(const RangeInputs& in, const void* = nullptr);         ///< of inputs 0 and 1
ValueRange difference(const RangeInputs& in, const void* = nullptr);  ///< of inputs 0 and 1
ValueRange product(const RangeInputs& in, const void* = nullptr);     ///< of inputs 0 and 1
ValueRange quotient(const RangeInputs& in, const void* = nullptr);    ///< of inputs 0 and 1
ValueRange maximum(const RangeInputs& in, const void* = nullptr);     ///< of inputs 0 and 1
ValueRange minimum(const RangeInputs& in, const void* = nullptr);     ///< of inputs 0 and 1

ValueRange total(const RangeInputs& in, const void* = nullptr);    ///< of sums of input 0 with equally many terms
ValueRange average(const RangeInputs& in, const void* = nullptr);  ///< of the means of such groups
ValueRange largest(const RangeInputs& in, const void* = nullptr);  ///< of the maxima of such groups

ValueRange within(const RangeInputs& in, const void* = nullptr);           ///< values of input 0, or between them
ValueRange within_or_zero(const RangeInputs& in, const void* = nullptr);   ///< values of input 0, or between them, or 0
ValueRange within_any(const RangeInputs& in, const void* = nullptr);       ///< values of any input
ValueRange within_branches(const RangeInputs& in, const void* = nullptr);  ///< values of inputs 1 and 2
ValueRange probability(const RangeInputs& in, const void* = nullptr);      ///< 0 to 1
ValueRange not_negative(const RangeInputs& in, const void* = nullptr);     ///< 0 or more
ValueRange not_positive(const RangeInputs& in, const void* = nullptr);     ///< 0 or less

}  // namespace ranges
}  // namespace binade
