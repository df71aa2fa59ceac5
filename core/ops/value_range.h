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
  /// If > 0: the values form this number of groups, and each group contains a value equal to `high`. For example, each
  /// row of x - max(x) contains 0
  std::int64_t peaks = 0;

  constexpr bool contains(double x) const { return low <= x && x <= high; }
};

/// Returns the smallest range that contains both ranges, with peaks 0.
ValueRange hull(const ValueRange& a, const ValueRange& b);

/// Arguments of the function that computes the range of an op's output.
struct RangeInputs {
  /// The range and the size of one input.
  struct Input {
    ValueRange range{};
    std::int64_t numel = 0;  ///< number of elements; 0 if the input was left out
  };
  std::span<const Input> inputs{};
  std::int64_t numel = 0;  ///< number of elements of output 0

  /// Returns the range of input i, unbounded if there is no such input.
  ValueRange operator[](std::size_t i) const { return i < inputs.size() ? inputs[i].range : ValueRange{}; }
};

/// Computes bounds of the values of output 0 before rounding, given bounds of the inputs. `params` points to the op's
/// Params of the call.
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

/// Range functions of ops whose range does not depend on parameters, used as `.range = ranges::sum`.
namespace ranges {

ValueRange sum(const RangeInputs& in, const void* = nullptr);         ///< input 0 + input 1
ValueRange difference(const RangeInputs& in, const void* = nullptr);  ///< input 0 - input 1
ValueRange product(const RangeInputs& in, const void* = nullptr);     ///< input 0 times input 1
ValueRange quotient(const RangeInputs& in, const void* = nullptr);    ///< input 0 / input 1
ValueRange maximum(const RangeInputs& in, const void* = nullptr);     ///< the larger of inputs 0 and 1
ValueRange minimum(const RangeInputs& in, const void* = nullptr);     ///< the smaller of inputs 0 and 1

ValueRange total(const RangeInputs& in, const void* = nullptr);    ///< sums of groups of equally many values of input 0
ValueRange average(const RangeInputs& in, const void* = nullptr);  ///< means of groups of values of input 0
ValueRange largest(const RangeInputs& in, const void* = nullptr);  ///< maxima of groups of values of input 0

ValueRange within(const RangeInputs& in, const void* = nullptr);           ///< in the range of input 0
ValueRange within_or_zero(const RangeInputs& in, const void* = nullptr);   ///< the range of input 0, extended to 0
ValueRange within_any(const RangeInputs& in, const void* = nullptr);       ///< values of any of the inputs
ValueRange within_branches(const RangeInputs& in, const void* = nullptr);  ///< values of input 1 or of input 2
ValueRange probability(const RangeInputs& in, const void* = nullptr);      ///< 0 to 1
ValueRange not_negative(const RangeInputs& in, const void* = nullptr);     ///< 0 or more
ValueRange not_positive(const RangeInputs& in, const void* = nullptr);     ///< 0 or less

}  // namespace ranges
}  // namespace binade
