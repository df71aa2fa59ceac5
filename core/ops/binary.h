#pragma once

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"

/// Elementwise ops of two inputs a and b with result y; ga, gb and gy are the gradients of the loss with respect to
/// them. Inputs broadcast as in NumPy: shapes are aligned at the right, and an extent of 1 repeats. Each op reads and
/// stores the wider of the two input dtypes (f32 for f16 with bf16), computes in float (double for f64) and rounds
/// once. The gradient of a broadcast input is summed in f32 over the repeated dimensions. Two whole-number inputs give
/// the wider of their dtypes, exact and wrapped around; their quotient is f32. promoted() (core/dtype.h) has the rule.
namespace binade::ops {

/// y = a + b.
struct Add : Binary<Add> {
  static constexpr OpInfo info = detail::binary_info(
      OpInfo{.name = "add", .range = ranges::sum, .carries_masks = true, .mask_inputs = 0b11});
  static constexpr Reads a_reads = Reads::kNone, b_reads = Reads::kNone;
  using Exact = exact::Add;
  static constexpr bool passes_gradient = true;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return a + b; }
  BINADE_HD static auto gradient_a(auto, auto, auto gy, const Params&) { return gy; }
  BINADE_HD static auto gradient_b(auto, auto, auto gy, const Params&) { return gy; }
};

/// y = a - b.
struct Sub : Binary<Sub> {
  static constexpr OpInfo info = detail::binary_info(
      OpInfo{.name = "sub", .range = ranges::difference, .carries_masks = true, .mask_inputs = 0b11});
  static constexpr Reads a_reads = Reads::kNone, b_reads = Reads::kNone;
  using Exact = exact::Sub;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return a - b; }
  BINADE_HD static auto gradient_a(auto, auto, auto gy, const Params&) { return gy; }
  BINADE_HD static auto gradient_b(auto, auto, auto gy, const Params&) { return -gy; }
};

/// y = a b. ga = gy b, gb = gy a.
struct Mul : Binary<Mul> {
  static constexpr OpInfo info = detail::binary_info(
      OpInfo{.name = "mul", .range = ranges::product, .carries_masks = true, .mask_inputs = 0b11});
  static constexpr Reads a_reads = Reads::kB, b_reads = Reads::kA;
  using Exact = exact::Mul;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return a * b; }
  BINADE_HD static auto gradient_a(auto, auto b, auto gy, const Params&) { return gy * b; }
  BINADE_HD static auto gradient_b(auto a, auto, auto gy, const Params&) { return gy * a; }
};

/// y = a / b. ga = gy / b, gb = -gy (a / b) / b.
struct Div : Binary<Div> {
  static constexpr OpInfo info = detail::binary_info(
      OpInfo{.name = "div", .singularities = {{.input = 1, .at = 0}}, .range = ranges::quotient});
  static constexpr Reads a_reads = Reads::kB, b_reads = Reads::kBoth;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return a / b; }
  BINADE_HD static auto gradient_a(auto, auto b, auto gy, const Params&) { return gy / b; }
  BINADE_HD static auto gradient_b(auto a, auto b, auto gy, const Params&) { return -gy * (a / b) / b; }
};

/// Returns the gradient of one input of maximum or minimum: 0 if the other input was selected, gy / 2 if both are
/// equal.
template <class C>
BINADE_HD C share_of(C gy, bool other_selected, bool tied) {
  const C share = tied ? C(0.5) * gy : gy;
  return other_selected ? C(0) : share;
}

/// y = max(a, b), NaN if either is NaN. The gradient goes to the larger input, half to each if they are equal.
struct Maximum : Binary<Maximum> {
  static constexpr OpInfo info = detail::binary_info(
      OpInfo{.name = "maximum", .range = ranges::maximum, .carries_masks = true, .mask_inputs = 0b11});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = a_reads;
  using Exact = exact::Maximum;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return math::maximum(a, b); }
  BINADE_HD static auto gradient_a(auto a, auto b, auto gy, const Params&) { return share_of(gy, a < b, a == b); }
  BINADE_HD static auto gradient_b(auto a, auto b, auto gy, const Params&) { return share_of(gy, b < a, a == b); }
};

/// y = min(a, b), NaN if either is NaN. The gradient goes to the smaller input, half to each if they are equal.
struct Minimum : Binary<Minimum> {
  static constexpr OpInfo info = detail::binary_info(
      OpInfo{.name = "minimum", .range = ranges::minimum, .carries_masks = true, .mask_inputs = 0b11});
  static constexpr Reads a_reads = Reads::kBoth, b_reads = a_reads;
  using Exact = exact::Minimum;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return math::minimum(a, b); }
  BINADE_HD static auto gradient_a(auto a, auto b, auto gy, const Params&) { return share_of(gy, a > b, a == b); }
  BINADE_HD static auto gradient_b(auto a, auto b, auto gy, const Params&) { return share_of(gy, b > a, a == b); }
};

}  // namespace binade::ops
