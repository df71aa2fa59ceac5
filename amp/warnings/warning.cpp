#include "binade/amp/warnings/warning.h"

#include "binade/core/error.h"

namespace binade::amp {

std::string_view name_of(WarningKind kind) {
  switch (kind) {
    case WarningKind::kOverflow: return "overflow ahead";
    case WarningKind::kSingularity: return "pole ahead";
    case WarningKind::kCollapse: return "attention collapse ahead";
    case WarningKind::kDivergence: return "divergence";
    case WarningKind::kGradients: return "gradients grow";
    case WarningKind::kUnderflow: return "silent underflow";
    case WarningKind::kStagnation: return "stagnation";
  }
  return "";
}

std::string place_of(const Warning& warning) {
  if (warning.kind == WarningKind::kGradients || warning.kind == WarningKind::kDivergence) return "the whole model";
  std::string text = warning.op.empty() ? "" : fmt::format("'{}' in ", warning.op);
  return text + fmt::format("{} ({})", warning.module.empty() ? "the root" : warning.module, warning.direction);
}

}  // namespace binade::amp
