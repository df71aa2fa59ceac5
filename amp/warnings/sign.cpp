#include "binade/amp/warnings/sign.h"

#include "binade/core/error.h"

namespace binade::amp {

std::string_view name_of(SignKind kind) {
  switch (kind) {
    case SignKind::kOverflow: return "overflow ahead";
    case SignKind::kPole: return "pole ahead";
    case SignKind::kCollapse: return "attention collapse ahead";
    case SignKind::kDivergence: return "divergence";
    case SignKind::kGradients: return "gradients grow";
    case SignKind::kUnderflow: return "silent underflow";
    case SignKind::kStagnation: return "stagnation";
  }
  return "";
}

std::string place_of(const Sign& sign) {
  if (sign.kind == SignKind::kGradients || sign.kind == SignKind::kDivergence) return "the whole model";
  std::string text = sign.op.empty() ? "" : fmt::format("'{}' in ", sign.op);
  return text + fmt::format("{} ({})", sign.module.empty() ? "the root" : sign.module, sign.direction);
}

}  // namespace binade::amp
