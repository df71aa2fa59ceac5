#include "binade/amp/policy.h"

#include <algorithm>

#include "binade/core/did_you_mean.h"

namespace binade::amp {
namespace {

Policy preset(std::string name, DType low, bool PrecisionPolicy::*flag = nullptr) {
  Policy policy;
  policy.name = std::move(name);
  policy.low = low;
  if (flag != nullptr) policy.*flag = true;
  return policy;
}

Policy without_masters(Policy policy) {
  policy.master_weights = false;
  policy.stochastic_rounding = true;
  return policy;
}

std::string last_part(const std::string& path) { return path.substr(path.find_last_of("./") + 1); }

/// Returns what the author of a pattern that matches nothing may have meant: a path that ends in it, or else the name
/// that is nearest, as a whole or in its last part.
std::string advice_for(const std::string& glob, std::span<const std::string> names) {
  const auto ends = std::ranges::find_if(names, [&](const std::string& name) { return name.ends_with("." + glob); });
  if (ends != names.end())
    return fmt::format("; a pattern must match the whole path: did you mean '*.{}', which matches '{}'?", glob, *ends);
  const auto distance = [&](const std::string& name) {
    return std::min(2 * edit_distance(glob, name), 2 * edit_distance(last_part(glob), last_part(name)) + 1);
  };
  const auto nearest = std::ranges::min_element(names, {}, distance);
  return nearest == names.end() ? "" : fmt::format("; the nearest is '{}'", *nearest);
}

}  // namespace

Policy Policy::fp32() { return preset("fp32", DType::f32); }
Policy Policy::tf32() { return preset("tf32", DType::f32, &PrecisionPolicy::tf32); }
Policy Policy::fp16() { return preset("fp16", DType::f16, &PrecisionPolicy::dynamic_loss_scale); }
Policy Policy::bf16() { return preset("bf16", DType::bf16); }
Policy Policy::fp8() { return preset("fp8", DType::bf16, &PrecisionPolicy::fp8_linear); }
Policy Policy::pure_bf16() { return without_masters(preset("pure-bf16", DType::bf16)); }
Policy Policy::pure_fp16() {
  return without_masters(preset("pure-fp16", DType::f16, &PrecisionPolicy::dynamic_loss_scale));
}

Policy Policy::by_name(std::string_view name) {
  for (const Policy& policy : {fp32(), tf32(), fp16(), bf16(), fp8(), pure_fp16(), pure_bf16()})
    if (policy.name == name) return policy;
  throw ArgumentError(
      fmt::format("precision: wanted fp32, tf32, fp16, bf16, fp8, pure-fp16 or pure-bf16, got '{}'", name));
}

void check_overrides(const PrecisionPolicy& policy, std::span<const std::string> names) {
  for (const PrecisionPolicy::Override& o : policy.overrides) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return glob_match(o.glob, name); })) continue;
    throw ArgumentError(
        fmt::format("precision override: '{}' matches no module path and no op{}", o.glob, advice_for(o.glob, names)));
  }
}

}  // namespace binade::amp
