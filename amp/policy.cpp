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
    const auto nearest = std::ranges::min_element(names, {},
                                                  [&](const std::string& name) { return edit_distance(o.glob, name); });
    const std::string advice = nearest == names.end() ? "" : fmt::format("; the nearest is '{}'", *nearest);
    throw ArgumentError(fmt::format("precision override: '{}' matches no module path and no op{}", o.glob, advice));
  }
}

}  // namespace binade::amp
