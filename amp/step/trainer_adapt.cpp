#include <map>

#include "binade/amp/step/trainer.h"
#include "binade/core/error.h"

// Converts a state that was made with other settings, so that a run can continue from it.
namespace binade::amp {
namespace {

/// "fp16 with head=f32", for people. Throws CheckpointError for a text that is not the text of a policy.
std::string words_of(const std::string& policy) {
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

/// Whether the entry is a scale of 8-bit products: kept only if the precision has them (nn/linear.h).
bool is_history(const std::string& entry) { return entry.starts_with("norm/") && entry.ends_with("fp8_amax"); }

/// `value`, converted to the current dtype of `parameter`.
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

}  // namespace

/// `saved` as a run with these options would have written it: weights in the dtype of these options, averages only if
/// these options keep them, and no headroom that was measured in another precision.
StateDict Trainer::fitting(const StateDict& saved) const {
  const std::string policy = options_.precision.to_string();
  const bool other_policy = saved.text("amp/policy") != policy;
  const bool averages = saved.contains("optim/ema/updates");
  if (!other_policy && averages == ema_.has_value()) return saved;
  std::map<std::string, const Variable*> parameters;
  for (const auto& [name, parameter] : nn::named_parameters(model_)) parameters["model/" + name] = parameter;
  StateDict state;
  for (const auto& [name, value] : saved.values()) {
    const auto parameter = parameters.find(name);
    const auto* tensor = std::get_if<Tensor>(&value);
    if (name == "amp/policy")
      state.put(name, policy);
    else if (other_policy && tensor != nullptr && parameter != parameters.end())
      state.put(name, stored_as(*tensor, *parameter->second, name));
    else if (!(other_policy && (name.starts_with("amp/signs/") || is_history(name))) &&
             (ema_ || !name.starts_with("optim/ema/")))
      state.put(name, value);
  }
  for (const auto& [name, buffer] : nn::named_buffers(model_))
    if (const std::string entry = "norm/" + name; other_policy && is_history(entry))
      state.put(entry, saved.contains(entry) ? saved.values().at(entry)
                                             : Tensor::zeros(buffer->committed().shape(), buffer->committed().dtype()));
  if (!ema_ || averages) return state;
  state.put("optim/ema/updates", std::int64_t{0});
  for (const auto& [name, parameter] : parameters)
    if (saved.contains(name))  // otherwise the model reports it, with all other mismatches
      state.put("optim/ema/average/" + name.substr(6), saved.tensor(name).to(DType::f32));
  return state;
}

std::vector<std::string> Trainer::changes_since(const StateDict& saved) const {
  std::vector<std::string> changes;
  const auto differ = [&](std::string_view what, const std::string& then, const std::string& now) {
    if (then != now) changes.push_back(fmt::format("{} {} -> {}", what, then, now));
  };
  differ("precision", words_of(saved.text("amp/policy")), words_of(options_.precision.to_string()));
  if (saved.contains("amp/scaler/mode"))
    differ("loss scale", saved.text("amp/scaler/mode"), to_string(scaler_.options()));
  const auto now = schedule_.state();
  differ("schedule", saved.text("sched/kind"), now.text("kind"));
  if (saved.contains("sched/lr"))
    differ("lr", fmt::format("{}", saved.number("sched/lr")), fmt::format("{}", now.number("lr")));
  const StateDict data = data_.state ? data_.state() : StateDict{};
  if (saved.contains("data/batch") && data.contains("batch"))
    differ("batch", fmt::format("{}", saved.integer("data/batch")), fmt::format("{}", data.integer("batch")));
  differ("averaged weights", saved.contains("optim/ema/updates") ? "on" : "off", ema_ ? "on" : "off");
  return changes;
}

}  // namespace binade::amp
