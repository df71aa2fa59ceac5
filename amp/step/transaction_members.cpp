// The members of a transaction: each part of a run's state, with its functions to save, load, commit and roll back.

#include "binade/amp/step/callback.h"
#include "binade/amp/step/state_sections.h"
#include "binade/amp/step/transaction.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

constexpr double kMinHeadroom = 1;  // an op stays promoted if it has fewer binades of headroom in its original dtype

/// Returns a member that stores the state of `value` in the section `name` of a checkpoint.
template <class T>
Member in_section(const std::string& name, T& value) {
  return {.put = [name, &value](StateDict& state) { state.merge(name, value.state()); },
          .check =
              [name, &value](const StateDict& state) {
                if constexpr (requires(const StateDict& s) { value.check_state(s); })
                  value.check_state(state.section(name));
                else
                  T().load_state(state.section(name));
              },
          .load = [name, &value](const StateDict& state) { value.load_state(state.section(name)); }};
}

Transaction::Totals totals_of(const StateDict& state) {
  Transaction::Totals total;
  for (const Transaction::Totals::Entry& entry : Transaction::Totals::kEntries)
    if (entry.required || state.contains(entry.name)) total.*entry.value = read_count(state, entry.name);
  return total;
}

}  // namespace

StateDict model_state(const StateDict& state) {
  StateDict model = state.section("model");
  const StateDict norm = state.section("norm");
  for (const auto& [name, value] : norm.values()) model.put(name, value);
  return model;
}

std::string section_of_schedule(const std::string& optimizer) {
  return optimizer.empty() ? "sched" : "sched/" + optimizer;
}

void Transaction::add_optimizer_members(std::size_t i) {
  optim::Optimizer& optimizer = *optimizers_[i];
  OptimizerState& state = states_[i];
  Member member = in_section(state.section, optimizer);
  member.roll_back = [&] {
    state.undo.restore(optimizer);
    state.has_update = false;
    optimizer.zero_grad();
  };
  members_.push_back(std::move(member));
  if (state.averages) members_.push_back(in_section(state.section + "/ema", *state.averages));
  if (!state.follower) return;
  // The averages themselves are the weights of the model that follows.
  Member follower;
  follower.put = [&](StateDict& saved) { saved.put(state.section + "/followed", state.follower->updates()); };
  follower.check = [&](const StateDict& saved) { read_count(saved, state.section + "/followed"); };
  follower.load = [&](const StateDict& saved) {
    state.follower->set_updates(read_count(saved, state.section + "/followed"));
  };
  members_.push_back(std::move(follower));
}

/// Adds the members in the order of a commit, after the optimizers' updates (make_updates()). The data is last because
/// its check already loads the cursor, which must not happen if the check of another member fails.
void Transaction::add_members() {
  for (std::size_t i = 0; i < optimizers_.size(); ++i) add_optimizer_members(i);

  Member model;
  model.put = [this](StateDict& state) {
    for (const auto& [name, parameter] : nn::named_parameters(model_)) state.put("model/" + name, parameter->value());
    for (const auto& [name, buffer] : nn::named_buffers(model_)) state.put("norm/" + name, buffer->committed());
  };
  model.check = [this](const StateDict& state) { nn::check_state_dict(model_, model_state(state)); };
  model.load = [this](const StateDict& state) { nn::load_state_dict(model_, model_state(state)); };
  model.commit = [this](const Commit& step) {
    for (const auto& [name, buffer] : nn::named_buffers(model_))
      step.written.empty() ? buffer->commit() : buffer->mutable_committed().bump_version();
    shadows_.drop();  // those of buffers that no visit() names
  };
  model.roll_back = [this] {
    for (const auto& [name, buffer] : nn::named_buffers(model_)) buffer->rollback();
    for (const auto& [name, parameter] : nn::named_parameters(model_)) parameter->zero_grad();
    shadows_.drop();
  };
  members_.push_back(std::move(model));

  Member scaler = in_section("amp/scaler", scaler_);
  scaler.commit = [this](const Commit& step) { scaler_.committed(step.headroom); };
  members_.push_back(std::move(scaler));

  members_.push_back(in_section("amp/signs", warnings_));

  Member spikes = in_section("amp/spikes", spikes_);
  spikes.commit = [this](const Commit& step) { spikes_.add(step.loss, step.grad_norm); };
  members_.push_back(std::move(spikes));

  Member remedies = in_section("amp/ladder", remediation_);
  remedies.check = [this](const StateDict& state) {
    if (const StateDict section = state.section("amp/ladder"); !section.empty()) remediation_.check_state(section);
  };
  remedies.load = [this](const StateDict& state) {
    remediation_ = RemediationPolicy(options_.remediation);
    if (const StateDict section = state.section("amp/ladder"); !section.empty()) remediation_.load_state(section);
  };
  remedies.commit = [this](const Commit& step) {
    step.notes = remediation_.review(step.step, [&](const std::string& target) {
      return step.telemetry.headroom_in(options_.precision.low, target) < kMinHeadroom;
    });
  };
  members_.push_back(std::move(remedies));

  for (OptimizerState& state : states_) members_.push_back(in_section(section_of_schedule(state.name), state.schedule));

  Member counters;
  counters.put = [this](StateDict& state) {
    state.put("amp/policy", options_.precision.to_string());
    state.put("rng/seed", static_cast<std::int64_t>(seed()));
    state.put("rng/step", counters_.steps);
    state.put("progress/step", counters_.steps);
    for (const Totals::Entry& entry : Totals::kEntries) state.put(entry.name, counters_.total.*entry.value);
    if (leaves_ != 1) state.put("amp/leaves", leaves_);
  };
  const auto counters_of = [](const StateDict& state) {
    return Counters{.total = totals_of(state), .steps = read_count(state, "rng/step")};
  };
  counters.check = [this, counters_of](const StateDict& state) {
    counters_of(state);
    leaves_with(state);
  };
  counters.load = [this, counters_of](const StateDict& state) {
    counters_ = counters_of(state);
    leaves_ = leaves_with(state);
    last_grad_norm_ = 0;
  };
  counters.commit = [this](const Commit& step) {
    counters_ = {.total = counters_.total, .steps = step.step};
    last_grad_norm_ = step.grad_norm;
  };
  members_.push_back(std::move(counters));

  Member callbacks;
  callbacks.put = [this](StateDict& state) {
    for (const Callback* one : callbacks_) state.merge("callbacks/" + one->name(), one->state());
  };
  callbacks.check = [this](const StateDict& state) {
    for (const Callback* one : callbacks_) one->check_state(state.section("callbacks/" + one->name()));
  };
  callbacks.load = [this](const StateDict& state) {
    for (Callback* one : callbacks_) one->load_state(state.section("callbacks/" + one->name()));
  };
  members_.push_back(std::move(callbacks));

  Member data;
  data.put = [this](StateDict& state) { state.merge("data", cursor()); };
  data.check = [this](const StateDict& state) {
    if (data_.load_state) data_.load_state(state.section("data"));
  };
  data.load = [this](const StateDict& state) {
    if (!data_.load_state) waiting_cursor_ = state.section("data");
  };
  data.commit = [this](const Commit& step) {
    if (step.origin != nullptr && data_.commit) data_.commit(*step.origin);
  };
  members_.push_back(std::move(data));
}

}  // namespace binade::amp
