#include "binade/amp/step/override_names.h"

#include <vector>

#include "binade/amp/policy.h"

namespace binade::amp {

OverrideNames::OverrideNames(nn::Module& model) {
  for (const auto& [path, module] : nn::named_modules(model)) names_.insert(path);
}

void OverrideNames::before_forward(const OpCall& call, std::span<const Variable>, Tensors&) {
  names_.emplace(call.module_path);
  names_.emplace(call.info.name);
  names_.insert(fmt::format("{}/{}", call.module_path, call.info.name));
}

void OverrideNames::check(const PrecisionPolicy& policy) const {
  check_overrides(policy, std::vector<std::string>(names_.begin(), names_.end()));
}

}  // namespace binade::amp
