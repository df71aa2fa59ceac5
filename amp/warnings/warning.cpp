#include "binade/amp/warnings/warning.h"

#include "binade/amp/text.h"

namespace binade::amp {

std::string location_of(const Warning& warning) {
  if (warning.op.empty() && warning.module.empty()) return "the whole model";
  std::string text = warning.op.empty() ? "" : fmt::format("'{}' in ", warning.op);
  return text + fmt::format("{} ({})", warning.module.empty() ? "the root" : warning.module, warning.direction);
}

std::string target_of(const Warning& warning) { return override_target(warning.op, warning.module); }

}  // namespace binade::amp
