#include "binade/amp/incident/refusal.h"

#include <algorithm>

#include "binade/amp/incident/source_place.h"
#include "binade/autograd/node.h"
#include "binade/autograd/weight.h"
#include "binade/core/observation.h"
#include "binade/core/step_context.h"

namespace binade::amp {

bool RefusalSearch::computed_from_weights(const Variable& x) const {
  return x.is_leaf() ? is_weight(x) && !x.state()->recomputed : from_weights_.contains(x.state()->node->tape_index());
}

void RefusalSearch::before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors&) {
  if (micro_batch_ != step_context().micro_batch) from_weights_.clear();
  micro_batch_ = step_context().micro_batch;
  const auto is_given = [](const Variable& x) { return x.defined() && x.is_leaf() && !is_weight(x); };
  weights_only_ = !inputs.empty() && std::ranges::all_of(inputs, [this](const Variable& x) {
    return !x.defined() || computed_from_weights(x);
  });
  found_.direction = inputs.empty() || std::ranges::any_of(inputs, is_given) ? "input" : "forward";
  found_.module = call.module_path;
  found_.op = call.info.name;
  found_.info = &call.info;
  found_.step = static_cast<std::int64_t>(step_context().step);
  found_.micro_batch = step_context().micro_batch;
  found_.tape_index = call.tape_index;
  found_.call_stack = capture_call_stack();
}

void RefusalSearch::after_forward(const OpCall& call, std::span<const Tensor>, Tensors& outputs, const Observation&) {
  for (const Tensor& output : outputs)
    if (output.defined() && is_floating(output.dtype())) static_cast<void>(observe(output));
  if (weights_only_) from_weights_.insert(call.tape_index);
  weights_only_ = false;
  found_.direction = "input";
  found_.module.clear();
  found_.op.clear();
  found_.info = nullptr;
  found_.tape_index = -1;
  found_.call_stack = {};
}

FirstBad RefusalSearch::found(const std::string& error) const {
  FirstBad bad = found_;
  std::string_view text = error;
  if (!bad.op.empty() && text.starts_with(bad.op)) {  // "inverse [encoder]: wanted ...; use pinv()"
    if (const std::size_t colon = text.find(": "); colon != text.npos) text.remove_prefix(colon + 2);
    if (const std::size_t semicolon = text.rfind("; "); semicolon != text.npos) {
      bad.refusal_advice = text.substr(semicolon + 2);
      text = text.substr(0, semicolon);
    }
  }
  bad.refusal = text;
  return bad;
}

}  // namespace binade::amp
