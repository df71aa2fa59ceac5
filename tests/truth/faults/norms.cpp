#include "tests/truth/faults/tapped.h"

/// Norms without an eps, applied to a constant sample.
namespace binade::truth {

std::vector<Scenario> norm_faults() {
  const std::vector<std::string> norm{"normalisation-pole", "normalization"};
  return tapped("normalization",
                {{"layer norm of a constant row",
                  [](const Variable& h, const Variable& g) { return h + layer_norm(varied(h) * g, {}, {}, 0) * 0.1; },
                  {0},
                  {"layer_norm"},
                  norm,
                  Proof::kSingular,
                  {"fp32", "bf16", "fp16"},
                  false},
                 {"RMS norm of a zero row",
                  [](const Variable& h, const Variable& g) { return h + rms_norm((abs(h) + 0.1) * g, {}, 0) * 0.1; },
                  {0},
                  {"rms_norm"},
                  norm,
                  Proof::kSingular,
                  {"fp32", "bf16", "fp16"},
                  false}});
}

}  // namespace binade::truth
