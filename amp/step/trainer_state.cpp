#include "binade/amp/state_hash.h"
#include "binade/amp/step/trainer.h"
#include "binade/core/error.h"
#include "binade/core/state_copy.h"
#include "binade/core/state_counts.h"

namespace binade::amp {

void Trainer::attach_data(DataHooks data) {
  if (!waiting_cursor_.values().empty()) data.load_state(waiting_cursor_);
  waiting_cursor_ = {};
  data_ = std::move(data);
}

StateDict Trainer::collect() const {
  StateDict state;
  for (const auto& [name, parameter] : nn::named_parameters(model_)) state.put("model/" + name, parameter->value());
  for (const auto& [name, buffer] : nn::named_buffers(model_)) state.put("norm/" + name, buffer->committed());
  state.merge("optim", optimizer_.state());
  if (ema_) state.merge("optim/ema", ema_->state());
  state.put("amp/policy", options_.precision.to_string());
  state.merge("amp/scaler", scaler_.state());
  state.merge("amp/signs", signs_.state());
  state.merge("amp/spikes", spikes_.state());
  state.merge("amp/ladder", ladder_.state());
  state.merge("sched", schedule_.state());
  state.put("rng/seed", static_cast<std::int64_t>(runtime_.seed()));
  state.put("rng/step", steps_);
  state.merge("data", data_.state ? data_.state() : waiting_cursor_);
  state.put("progress/step", steps_);
  state.put("progress/skipped_total", skipped_);
  return state;
}

StateDict Trainer::state() {
  settle();
  return cloned(collect());
}

std::string Trainer::state_hash() {
  settle();
  return amp::state_hash(collect());
}

void Trainer::check_state(const StateDict& state) const {
  check<CheckpointError>(state.integer("rng/seed") == static_cast<std::int64_t>(runtime_.seed()),
                         "trainer: the checkpoint was made with seed {}, this run has {}", state.integer("rng/seed"),
                         runtime_.seed());
  read_count(state, "rng/step");
  read_count(state, "progress/skipped_total");
  optimizer_.check_state(state.section("optim"));
  if (ema_) ema_->check_state(state.section("optim/ema"));
  scaler_.check_state(state.section("amp/scaler"));
  Signs().load_state(state.section("amp/signs"));
  SpikeGuard().load_state(state.section("amp/spikes"));
  if (const StateDict remedies = state.section("amp/ladder"); !remedies.empty()) ladder_.check_state(remedies);
  schedule_.check_state(state.section("sched"));
}

void Trainer::load_state(const StateDict& saved) {
  settle();
  const StateDict state = fitting(saved);
  std::vector<std::string> changes = changes_since(saved);
  check_state(state);
  if (recorder_) recorder_->forget();
  StateDict model;
  for (const char* section : {"model", "norm"}) {
    const StateDict part = state.section(section);
    for (const auto& [name, value] : part.values()) model.put(name, value);
  }
  // The data's own check comes first, the model's second; each changes nothing when it throws, and the first is undone
  // when the second does.
  const StateDict cursor = data_.state ? data_.state() : StateDict{};
  if (data_.load_state) data_.load_state(state.section("data"));
  try {
    nn::load_state_dict(model_, model);
  } catch (...) {
    if (data_.load_state) data_.load_state(cursor);
    throw;
  }
  if (!data_.load_state) waiting_cursor_ = state.section("data");
  optimizer_.load_state(state.section("optim"));
  if (ema_) ema_->load_state(state.section("optim/ema"));
  scaler_.load_state(state.section("amp/scaler"));
  signs_.load_state(state.section("amp/signs"));
  spikes_.load_state(state.section("amp/spikes"));
  const StateDict remedies = state.section("amp/ladder");
  if (remedies.empty())
    ladder_ = Ladder(options_.ladder);
  else
    ladder_.load_state(remedies);
  schedule_.load_state(state.section("sched"));
  steps_ = read_count(state, "rng/step");
  skipped_ = read_count(state, "progress/skipped_total");
  attempts_ = incidents_ = skips_ = 0;
  changes_ = std::move(changes);
}

}  // namespace binade::amp
