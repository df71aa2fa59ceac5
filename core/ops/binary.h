#pragma once

#include "binade/core/math.h"
#include "binade/core/ops/elementwise.h"

/// The elementwise ops of two inputs, with NumPy's broadcasting: shapes are aligned at the right, and an extent of 1
/// repeats. Each reads and stores the wider of the two dtypes (f16 with bf16 gives f32), computes in float (double for
/// f64) and rounds once. The gradient of a broadcast input is summed in f32 over the dimensions that repeated it.
namespace binade::ops {

/// y = a + b.
struct Add : Binary<Add> {
  static constexpr OpInfo info{.name = "add",
                               .inputs = "a, b",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .range = ranges::sum,
                               .carries_masks = true,
                               .mask_inputs = 0b11};
  static constexpr Reads a_reads = Reads::kNone, b_reads = Reads::kNone;
  static constexpr bool passes_gradient = true;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return a + b; }
  BINADE_HD static auto gradient_a(auto, auto, auto gy, const Params&) { return gy; }
  BINADE_HD static auto gradient_b(auto, auto, auto gy, const Params&) { return gy; }
};

/// y = a - b.
struct Sub : Binary<Sub> {
  static constexpr OpInfo info{.name = "sub",
                               .inputs = "a, b",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .range = ranges::difference,
                               .carries_masks = true,
                               .mask_inputs = 0b11};
  static constexpr Reads a_reads = Reads::kNone, b_reads = Reads::kNone;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return a - b; }
  BINADE_HD static auto gradient_a(auto, auto, auto gy, const Params&) { return gy; }
  BINADE_HD static auto gradient_b(auto, auto, auto gy, const Params&) { return -gy; }
};

/// y = a b. ga = gy b, gb = gy a.
struct Mul : Binary<Mul> {
  static constexpr OpInfo info{.name = "mul",
                               .inputs = "a, b",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .range = ranges::product,
                               .carries_masks = true,
                               .mask_inputs = 0b11};
  static constexpr Reads a_reads = Reads::kB, b_reads = Reads::kA;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return a * b; }
  BINADE_HD static auto gradient_a(auto, auto b, auto gy, const Params&) { return gy * b; }
  BINADE_HD static auto gradient_b(auto a, auto, auto gy, const Params&) { return gy * a; }
};

/// y = a / b. ga = gy / b, gb = -gy (a / b) / b.
struct Div : Binary<Div> {
  static constexpr OpInfo info{.name = "div",
                               .inputs = "a, b",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .singularities = {{.input = 1, .at = 0}},
                               .range = ranges::quotient};
  static constexpr Reads a_reads = Reads::kB, b_reads = Reads::kBoth;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return a / b; }
  BINADE_HD static auto gradient_a(auto, auto b, auto gy, const Params&) { return gy / b; }
  BINADE_HD static auto gradient_b(auto a, auto b, auto gy, const Params&) { return -gy * (a / b) / b; }
};

/// y = the larger; NaN from either side. The gradient goes to the larger, half to each where they are equal.
struct Maximum : Binary<Maximum> {
  static constexpr OpInfo info{.name = "maximum",
                               .inputs = "a, b",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .range = ranges::maximum,
                               .carries_masks = true,
                               .mask_inputs = 0b11};
  static constexpr Reads a_reads = Reads::kBoth, b_reads = a_reads;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return math::maximum(a, b); }
  template <class C>
  BINADE_HD static C gradient_a(C a, C b, C gy, const Params&) {
    const C tied = a == b ? C(0.5) * gy : gy;
    return a < b ? C(0) : tied;
  }
  template <class C>
  BINADE_HD static C gradient_b(C a, C b, C gy, const Params&) {
    const C tied = a == b ? C(0.5) * gy : gy;
    return b < a ? C(0) : tied;
  }
};

/// y = the smaller; NaN from either side. The gradient goes to the smaller, half to each where they are equal.
struct Minimum : Binary<Minimum> {
  static constexpr OpInfo info{.name = "minimum",
                               .inputs = "a, b",
                               .precision = PrecisionClass::kWidest,
                               .numerics = {.ulp_f32 = 0.5, .ulp_half = 0.5},
                               .observed = Observed::kByKernels,
                               .range = ranges::minimum,
                               .carries_masks = true,
                               .mask_inputs = 0b11};
  static constexpr Reads a_reads = Reads::kBoth, b_reads = a_reads;
  BINADE_HD static auto value(auto a, auto b, const Params&) { return math::minimum(a, b); }
  template <class C>
  BINADE_HD static C gradient_a(C a, C b, C gy, const Params&) {
    const C tied = a == b ? C(0.5) * gy : gy;
    return a > b ? C(0) : tied;
  }
  template <class C>
  BINADE_HD static C gradient_b(C a, C b, C gy, const Params&) {
    const C tied = a == b ? C(0.5) * gy : gy;
    return b > a ? C(0) : tied;
  }
};

}  // namespace binade::ops
