#include "binade/amp/step/state_sections.h"

#include "binade/amp/policy.h"
#include "binade/amp/verdict.h"
#include "binade/core/error.h"

namespace binade::amp {

std::string description_of(const std::string& policy) {
  try {
    const PrecisionPolicy p = PrecisionPolicy::from_string(policy);
    std::string text = p.name;
    for (const PrecisionPolicy::Override& o : p.overrides)
      text += fmt::format("{}{}={}", &o == &p.overrides.front() ? " with " : ", ", o.glob, name_of(o.dtype));
    return text;
  } catch (const ArgumentError& error) {
    throw CheckpointError(fmt::format("trainer: the checkpoint's precision is damaged: {}", error.what()));
  }
}

bool is_fp8_history(const std::string& entry) { return entry.starts_with("norm/") && entry.ends_with("fp8_amax"); }

Tensor stored_as(const Tensor& value, const Variable& parameter, const std::string& name) {
  const DType dtype = parameter.dtype();
  if (value.dtype() == dtype || !is_floating(value.dtype())) return value;
  Tensor stored = value.to(dtype);
  check<CheckpointError>(
      all_finite(stored),
      "trainer: the checkpoint's {} holds numbers beyond the range of {}, in which this run stores its "
      "weights; use a precision that keeps them in f32",
      name, name_of(dtype));
  return stored;
}

StateDict with_data(const StateDict& state, const StateDict& data) {
  StateDict result;
  for (const auto& [name, value] : state.values())
    if (!name.starts_with("data/")) result.put(name, value);
  result.merge("data", data);
  return result;
}

StateDict with_quarantine(const StateDict& cursor, const StateDict& newer) {
  StateDict result;
  for (const auto& [name, value] : cursor.values())
    result.put(name, name == "quarantine" && newer.contains(name) ? newer.values().at(name) : value);
  return result;
}

StateDict model_state(const StateDict& state) {
  StateDict model = state.section("model");
  const StateDict norm = state.section("norm");
  for (const auto& [name, value] : norm.values()) model.put(name, value);
  return model;
}

std::string section_of_schedule(const std::string& optimizer) {
  return optimizer.empty() ? "sched" : "sched/" + optimizer;
}

}  // namespace binade::amp
