#include "binade/amp/step/undo_log.h"

#include "binade/core/state_copy.h"

namespace binade::amp {
namespace {

/// Returns the state of the optimizer and the weights. Tensors share memory with those of the run.
StateDict state_of(const optim::Optimizer& optimizer) {
  StateDict state;
  state.merge("state", optimizer.state());
  for (const optim::FlatParameters::Slice& slice : optimizer.parameters().slices())
    state.put("weights/" + slice.name, slice.variable.value());
  return state;
}

}  // namespace

void UndoLog::reserve(optim::Optimizer& optimizer) {
  if (copy_.empty()) copy_ = cloned(state_of(optimizer));
}

void UndoLog::save(optim::Optimizer& optimizer) {
  if (holds_state_) return;
  const StateDict now = state_of(optimizer);
  StateDict copy;
  for (const auto& [name, value] : now.values()) {
    const auto* tensor = std::get_if<Tensor>(&value);
    if (tensor == nullptr) {
      copy.put(name, value);
      continue;
    }
    Tensor kept = copy_.contains(name) ? copy_.tensor(name) : Tensor();
    if (kept.defined() && kept.dtype() == tensor->dtype())
      kept.copy_from(*tensor);
    else
      kept = tensor->clone();
    copy.put(name, kept);
  }
  copy_ = std::move(copy);
  holds_state_ = true;
}

void UndoLog::restore(optim::Optimizer& optimizer) {
  if (!holds_state_) return;
  holds_state_ = false;
  optimizer.load_state(copy_.section("state"));
  for (const optim::FlatParameters::Slice& slice : optimizer.parameters().slices()) {
    Tensor weights = slice.variable.value();
    weights.copy_from(copy_.tensor("weights/" + slice.name));
  }
  optimizer.weights_changed();
}

}  // namespace binade::amp
