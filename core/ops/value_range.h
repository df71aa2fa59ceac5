#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace binade {

/// Bounds of the values that a tensor can hold; an infinite end: no bound is known.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::int64_t peaks = 0;  ///< > 0: the values lie in so many groups, each of which attains `high` (x - max(x))

  constexpr bool contains(double x) const { return low <= x && x <= high; }
};

/// The smallest range that holds both. Its groups are unknown.
ValueRange hull(const ValueRange& a, const ValueRange& b);

/// What an op's range is computed from. An input that was left out, or is not there, has no bounds.
struct RangeInputs {
  struct Input {
    ValueRange range{};
    std::int64_t numel = 0;  ///< 0: it was left out
  };
  std::span<const Input> inputs{};
  std::int64_t numel = 0;  ///< of output 0

  ValueRange operator[](std::size_t i) const { return i < inputs.size() ? inputs[i].range : ValueRange{}; }
};

/// The values that output 0 can have, before they are rounded, given those of the inputs. `params` are the call's.
using RangeFunction = ValueRange (*)(const RangeInputs& in, const void* params);

namespace detail {
template <auto F>
struct TypedRange;
template <class Params, ValueRange (*F)(const RangeInputs&, const Params&)>
struct TypedRange<F> {
  static ValueRange of(const RangeInputs& in, const void* params) { return F(in, *static_cast<const Params*>(params)); }
};
}  // namespace detail

/// For OpInfo::range, from an op's own `static ValueRange range(const RangeInputs& in, const Params& p)`, which stands
/// before its info: `.range = typed_range<range>`.
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

ValueRange total(const RangeInputs& in, const void* = nullptr);    ///< of sums of input 0, of equally many terms
ValueRange average(const RangeInputs& in, const void* = nullptr);  ///< of their means
ValueRange largest(const RangeInputs& in, const void* = nullptr);  ///< of the largest of each

ValueRange within(const RangeInputs& in, const void* = nullptr);           ///< some values of input 0, or between them
ValueRange within_or_zero(const RangeInputs& in, const void* = nullptr);   ///< the same, or 0
ValueRange within_any(const RangeInputs& in, const void* = nullptr);       ///< values of any input
ValueRange within_branches(const RangeInputs& in, const void* = nullptr);  ///< values of inputs 1 and 2
ValueRange probability(const RangeInputs& in, const void* = nullptr);      ///< 0 to 1
ValueRange not_negative(const RangeInputs& in, const void* = nullptr);     ///< 0 or more
ValueRange not_positive(const RangeInputs& in, const void* = nullptr);     ///< 0 or less

}  // namespace ranges
}  // namespace binade
