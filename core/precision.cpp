#include "binade/core/precision.h"

#include <algorithm>

#include "binade/core/per_thread.h"

namespace binade {
namespace {

PrecisionPolicy& active() {
  constinit thread_local PerThread<PrecisionPolicy> policy;
  return policy.get();
}

/// Returns the narrowest dtype that holds all values of `inputs`: f32 for f16 with bf16.
DType widest(std::span<const DType> inputs) {
  DType result = inputs.front();
  for (const DType d : inputs) result = promoted(result, d);
  return result;
}

constexpr DType kPolicyDTypes[] = {DType::f32, DType::f16, DType::bf16};

DType parse_dtype(std::string_view text) {
  for (const DType d : kPolicyDTypes)
    if (name_of(d) == text) return d;
  throw ArgumentError(fmt::format("precision policy: wanted f32, f16 or bf16, got '{}'", text));
}

}  // namespace

bool glob_match(std::string_view glob, std::string_view text) {
  std::size_t g = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (g < glob.size() && glob[g] == text[t]) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

bool PrecisionPolicy::Override::matches(std::string_view module_path, std::string_view op) const {
  if (glob.find('/') == glob.npos) return glob_match(glob, module_path) || glob_match(glob, op);
  return glob_match(glob, fmt::format("{}/{}", module_path, op));
}

PrecisionPolicy PrecisionPolicy::with(std::string glob, DType dtype) const {
  check<ArgumentError>(std::ranges::count(kPolicyDTypes, dtype) > 0,
                       "precision policy: an override wants f32, f16 or bf16, got {}", name_of(dtype));
  PrecisionPolicy copy = *this;
  copy.overrides.push_back({std::move(glob), dtype});
  return copy;
}

std::optional<DType> PrecisionPolicy::override_for(std::string_view module_path, std::string_view op) const {
  for (auto it = overrides.rbegin(); it != overrides.rend(); ++it)
    if (it->matches(module_path, op)) return it->dtype;
  return std::nullopt;
}

std::string PrecisionPolicy::to_string() const {
  std::string text = fmt::format("{}:{}:{}{}{}{}{}", name, name_of(low), tf32 ? 't' : '-', master_weights ? 'm' : '-',
                                 stochastic_rounding ? 's' : '-', dynamic_loss_scale ? 'd' : '-',
                                 fp8_linear ? "8" : "");  // nothing without fp8, as in checkpoints of older versions
  for (const Override& o : overrides) text += fmt::format(";{}={}", o.glob, name_of(o.dtype));
  return text;
}

PrecisionPolicy PrecisionPolicy::from_string(std::string_view text) {
  const auto bad = [&] {
    return ArgumentError(fmt::format("precision policy: '{}' is not NAME:DTYPE:FLAGS[;GLOB=DTYPE…]", text));
  };
  std::string_view head = text.substr(0, text.find(';'));
  std::string_view tail = text.size() > head.size() ? text.substr(head.size() + 1) : std::string_view{};
  const std::size_t first = head.find(':');
  const std::size_t second = first == head.npos ? head.npos : head.find(':', first + 1);
  if (second == head.npos) throw bad();
  const std::string_view flags = head.substr(second + 1);
  if (flags.size() != 4 && !(flags.size() == 5 && flags[4] == '8')) throw bad();
  PrecisionPolicy policy;
  policy.name = head.substr(0, first);
  policy.low = parse_dtype(head.substr(first + 1, second - first - 1));
  policy.tf32 = flags[0] == 't';
  policy.master_weights = flags[1] == 'm';
  policy.stochastic_rounding = flags[2] == 's';
  policy.dynamic_loss_scale = flags[3] == 'd';
  policy.fp8_linear = flags.size() == 5;
  while (!tail.empty()) {
    const std::string_view item = tail.substr(0, tail.find(';'));
    const std::size_t equals = item.rfind('=');
    if (equals == item.npos) throw bad();
    policy.overrides.push_back({std::string(item.substr(0, equals)), parse_dtype(item.substr(equals + 1))});
    tail = tail.size() > item.size() ? tail.substr(item.size() + 1) : std::string_view{};
  }
  return policy;
}

OpPrecision compute_dtype(PrecisionClass precision, std::span<const DType> inputs, const PrecisionPolicy& policy,
                          std::string_view module_path, std::string_view op) {
  if (std::ranges::count(inputs, DType::f64) > 0) return {DType::f64, DType::f64};
  const std::optional<DType> forced = policy.override_for(module_path, op);
  switch (precision) {
    case PrecisionClass::kLow: {
      const DType low = forced.value_or(policy.low);
      return {low, low, policy.tf32 && low == DType::f32 && !forced};
    }
    case PrecisionClass::kFull:
      // Inputs are not cast to f32, because kernels widen values as they read them. This gives the same bits without an
      // f32 copy.
      return {std::nullopt, forced.value_or(DType::f32)};
    case PrecisionClass::kWidest: {
      const DType dtype = forced.value_or(widest(inputs));
      return {dtype, dtype};
    }
    case PrecisionClass::kAsIs:
      if (forced) return {*forced, *forced};
      return {std::nullopt, inputs.front()};
  }
  return {std::nullopt, DType::f32};
}

bool reads_fp8(const PrecisionPolicy& policy, std::string_view module_path, std::string_view op) {
  return policy.fp8_linear && !policy.override_for(module_path, op);
}

const PrecisionPolicy& current_policy() { return active(); }

PolicyScope::PolicyScope(PrecisionPolicy policy) : ScopedValue(active(), std::move(policy)) {}

}  // namespace binade
