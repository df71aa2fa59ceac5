#include "tests/truth/faults/tapped.h"

/// Constants that protect a formula in f32 and f64, but that rounding to 16 bits removes: an eps, a clamp next to 1, a
/// mask value.
namespace binade::truth {

namespace {

/// The gate cast to the activation's dtype, so that products with it stay in 16 bits.
Variable gate_in_dtype_of(const Variable& g, const Variable& h) { return cast(g, h.dtype()); }
/// A value between 0 and 1. It is 1 if the gate is 0.
Variable share(const Variable& h, const Variable& g) {
  return cast(exp((mean(abs(h), {-1}, true) + 0.5) * g * -1.0), h.dtype());
}

}  // namespace

std::vector<Scenario> rounding_faults() {
  const std::vector<std::string> classes{"arithmetic-pole", "round", "constant"};
  return tapped(
      "rounded constant",
      {
          {"eps of 1e-8 beside a variance of 0",
           [](const Variable& h, const Variable& g) {
             const Variable x = (abs(h) + 0.1) * gate_in_dtype_of(g, h);
             const Variable power = cast(mean(x * x, {-1}, true), h.dtype()) + 1e-8;
             return h + cast(x * x, h.dtype()) / power * 0.1;
           },
           {0},
           {"div"},
           classes,
           Proof::kRounded,
           {"fp16"}},
          {"eps of 1e-9 in a log",
           [](const Variable& h, const Variable& g) { return h + log(gate_in_dtype_of(g, h) * 0.5 + 1e-9) * 0.1; },
           {0},
           {"log"},
           classes,
           Proof::kRounded,
           {"fp16"}},
          {"eps of 1e-12 in a quotient",
           [](const Variable& h, const Variable& g) { return h / (gate_in_dtype_of(g, h) + 1e-12); },
           {0},
           {"div"},
           classes,
           Proof::kRounded,
           {"fp16"}},
          {"clamp to 1 - 1e-4 before a log",
           [](const Variable& h, const Variable& g) { return h - log(1.0 - clamp(share(h, g), 1e-3, 1 - 1e-4)) * 0.1; },
           {0},
           {"log"},
           classes,
           Proof::kRounded,
           {"fp16", "bf16"}},
          {"clamp to 1 - 1e-6 before a quotient",
           [](const Variable& h, const Variable& g) { return h + 0.01 / (1.0 - clamp(share(h, g), 0.0, 1 - 1e-6)); },
           {0},
           {"scalar_div"},
           classes,
           Proof::kRounded,
           {"fp16", "bf16"}},
          {"eps of 1e-3 beside 1",
           [](const Variable& h, const Variable& g) { return h - log((share(h, g) - 1e-3) * -1.0 + 1.0) * 0.1; },
           {0},
           {"log"},
           classes,
           Proof::kRounded,
           {"bf16"}},
      });
}

}  // namespace binade::truth
