#include "binade/amp/policy.h"

#include <algorithm>
#include <array>

#include "binade/core/error.h"

namespace binade::amp {
namespace {

Policy preset(std::string name, DType low) {
  Policy policy;
  policy.name = std::move(name);
  policy.low = low;
  return policy;
}

Policy without_masters(Policy policy) {
  policy.master_weights = false;
  policy.stochastic_rounding = true;
  return policy;
}

/// Edits that turn `a` into `b` (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

Policy Policy::fp32() { return preset("fp32", DType::f32); }

Policy Policy::tf32() {
  Policy policy = preset("tf32", DType::f32);
  policy.PrecisionPolicy::tf32 = true;
  return policy;
}

Policy Policy::fp16() {
  Policy policy = preset("fp16", DType::f16);
  policy.dynamic_loss_scale = true;
  return policy;
}

Policy Policy::bf16() { return preset("bf16", DType::bf16); }

Policy Policy::fp8() {
  Policy policy = preset("fp8", DType::bf16);
  policy.fp8_linear = true;
  return policy;
}

Policy Policy::pure_fp16() {
  Policy policy = without_masters(preset("pure-fp16", DType::f16));
  policy.dynamic_loss_scale = true;
  return policy;
}

Policy Policy::pure_bf16() { return without_masters(preset("pure-bf16", DType::bf16)); }

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
                                                  [&](const std::string& name) { return distance(o.glob, name); });
    const std::string advice = nearest == names.end() ? "" : fmt::format("; the nearest is '{}'", *nearest);
    throw ArgumentError(fmt::format("precision override: '{}' matches no module path and no op{}", o.glob, advice));
  }
}

}  // namespace binade::amp
