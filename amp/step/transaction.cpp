#include "binade/amp/step/transaction.h"

#include <map>
#include <set>

#include "binade/amp/step/callback.h"
#include "binade/amp/step/model_group.h"
#include "binade/amp/step/registration.h"
#include "binade/amp/step/state_sections.h"
#include "binade/amp/verdict.h"
#include "binade/core/kernels/table.h"
#include "binade/core/program_flags.h"
#include "binade/core/state_copy.h"
#include "binade/core/state_counts.h"
#include "binade/io/checkpoint/sections.h"
#include "binade/io/data/batch_order.h"
#include "binade/nn/linear.h"
#include "binade/optim/averaged_weights.h"

namespace binade::amp {
namespace {

const io::CheckpointSection kSections[] = {"amp",   "callbacks", "data", "model", "norm",
                                           "optim", "progress",  "rng",  "sched"};

LossScaleOptions loss_scale_of(const TrainerOptions& options) {
  if (options.loss_scale) return *options.loss_scale;
  return options.precision.dynamic_loss_scale ? LossScaleOptions::dynamic() : LossScaleOptions::off();
}

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

Transaction::Transaction(Runtime& runtime, const Participants& participants, const TrainerOptions& options)
    : runtime_(runtime),
      group_(group_of(participants)),
      model_(group_ ? *group_ : participants.models.front().model),
      options_(options),
      scaler_(loss_scale_of(options)),
      remediation_(options.remediation) {
  leaves_ = options.leaves > 0 ? options.leaves : ranks().alone() ? 1 : options.accumulate;
  nn::assign_paths(model_);
  nn::use_fp8(model_, options.precision.fp8_linear);
  add_optimizers(participants);
  std::vector<std::unique_ptr<optim::Ema>> followers = follow(participants);
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i].follower = std::move(followers[i]);
  add_members();
}
Transaction::~Transaction() = default;

void Transaction::add_optimizers(const Participants& participants) {
  for (const NamedOptimizer& one : participants.optimizers) {
    optim::Optimizer& optimizer = one.optimizer;
    if (group_) optimizer.parameters().adopt_paths();
    if (!options_.precision.master_weights)
      optimizer.store_weights_in(options_.precision.low, options_.precision.stochastic_rounding);
    const std::optional<optim::Schedule>& schedule = one.schedule ? one.schedule : options_.schedule;
    const std::optional<optim::EmaOptions>& ema = one.ema ? one.ema : options_.ema;
    check<ArgumentError>(!ema || !optimizer.averages_weights(),
                         "trainer: {} averages the weights itself, and evaluations use its averages; leave out the "
                         "option ema",
                         optimizer.kind());
    OptimizerState state{.name = one.name,
                         .section = one.name.empty() ? "optim" : "optim/" + one.name,
                         .is_scheduled = schedule.has_value(),
                         .schedule = schedule ? *schedule : optim::Schedule::constant(optimizer.lr())};
    if (ema) state.averages = std::make_unique<optim::Ema>(optimizer.parameters(), *ema);
    optimizers_.push_back(&optimizer);
    states_.push_back(std::move(state));
    first_parameters_.push_back(parameters_.size());
    optim::append(parameters_, optimizer.parameters());
  }
  std::set<const void*> held;
  for (const optim::FlatParameters::Slice* parameter : parameters_) {
    const std::string& path = parameter->variable.state()->name;
    check<ArgumentError>(held.insert(parameter->variable.state().get()).second,
                         "trainer: two optimizers hold the parameter {}; each parameter may have one",
                         path.empty() ? parameter->name : path);
  }
  check_optimizers(model_, optimizers_);
}

std::vector<std::size_t> Transaction::indices_of(std::span<optim::Optimizer* const> optimizers) const {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < optimizers_.size() && optimizers.empty(); ++i) indices.push_back(i);
  for (const optim::Optimizer* optimizer : optimizers) {
    const auto found = std::ranges::find(optimizers_, optimizer);
    check<ArgumentError>(found != optimizers_.end(),
                         "trainer: a phase trains an optimizer ({}) that the trainer does not have; list it when you "
                         "make the trainer",
                         optimizer->kind());
    indices.push_back(static_cast<std::size_t>(found - optimizers_.begin()));
    check<ArgumentError>(std::ranges::count(indices, indices.back()) == 1,
                         "trainer: a phase lists the optimizer {} twice; list it once",
                         states_[indices.back()].name.empty() ? optimizer->kind() : states_[indices.back()].name);
  }
  return indices;
}

std::string Transaction::names_of(std::span<const std::size_t> optimizers) const {
  std::string names;
  for (const std::size_t i : optimizers) names += (names.empty() ? "" : ", ") + states_[i].name;
  return names;
}

std::vector<optim::Ema*> Transaction::averages() const {
  std::vector<optim::Ema*> averages;
  for (const OptimizerState& state : states_) averages.push_back(state.averages.get());
  return averages;
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
    shadows_.drop();  // also the shadows of buffers that no visit() names
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
    set_counters(counters_of(state));
    leaves_ = leaves_with(state);
    last_grad_norm_ = 0;
  };
  counters.commit = [this](const Commit& step) {
    set_counters({.total = counters_.total, .steps = step.step});
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
    loaded_callbacks_ = state.section("callbacks");
    loaded_step_ = counters_.steps;
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

int Transaction::leaves_of(int micro_batches) const {
  const auto leaves = static_cast<int>(std::min<std::int64_t>(leaves_, micro_batches));
  check<ArgumentError>(leaves >= ranks().size(),
                       "trainer: {} ranks share the micro-batches of a step, which has {} in {} leaves; use at most {} "
                       "ranks, or {} or a multiple of it",
                       ranks().size(), micro_batches, leaves, leaves,
                       flag_or("accumulate", fmt::format("{}", ranks().size()),
                               fmt::format("TrainerOptions::accumulate = {}", ranks().size())));
  return leaves;
}

/// Returns the number of leaves of a run that continues from a saved state.
std::int64_t Transaction::leaves_with(const StateDict& saved) const {
  if (options_.leaves > 0) return options_.leaves;
  const std::int64_t leaves = saved.contains("amp/leaves") ? read_count(saved, "amp/leaves", 1) : 1;
  return leaves >= ranks().size() ? leaves : options_.accumulate;
}

double Transaction::lr_of(std::int64_t step, std::size_t optimizer) const {
  const OptimizerState& state = states_[optimizer];
  return (state.is_scheduled ? state.schedule.lr(step) : optimizers_[optimizer]->lr()) * remediation_.lr_factor(step);
}

double Transaction::highest_lr(std::size_t optimizer) const {
  const OptimizerState& state = states_[optimizer];
  return state.is_scheduled ? state.schedule.options().lr : optimizers_[optimizer]->lr();
}

// ---- a step -------------------------------------------------------------------------------------

void Transaction::reserve_undo(std::span<const std::size_t> optimizers) {
  for (const std::size_t i : optimizers) states_[i].undo.reserve(*optimizers_[i]);
}

/// Samples weights and gradients for the warnings, before the updates change the weights.
void Transaction::sample_updates(std::int64_t step, std::span<const OptimizerUpdate> updates) {
  for (const OptimizerUpdate& update : updates)
    warnings_.before_update(step, *optimizers_[update.optimizer], update.input);
}

/// Makes the updates of one phase: all, or none if an error occurs.
void Transaction::make_updates(std::span<const OptimizerUpdate> updates) {
  std::vector<optim::Optimizer*> optimizers;
  std::vector<optim::StepInput> inputs;
  for (const OptimizerUpdate& update : updates) {
    optimizers.push_back(optimizers_[update.optimizer]);
    inputs.push_back(update.input);
  }
  optim::Optimizer::step_together(optimizers, inputs);
  for (const OptimizerUpdate& update : updates) states_[update.optimizer].has_update = true;
}

void Transaction::update_before_verdict(std::int64_t step, std::span<const OptimizerUpdate> updates) {
  sample_updates(step, updates);
  for (const OptimizerUpdate& update : updates) states_[update.optimizer].undo.save(*optimizers_[update.optimizer]);
  make_updates(updates);
}

void Transaction::commit(const Commit& step) {
  try {
    warnings_.before_commit(step.step, model_);
    sample_updates(step.step, step.updates);
    step.written.empty() ? make_updates(step.updates) : device_updates().committed(step.written);
  } catch (...) {
    roll_back();
    throw;
  }
  for (OptimizerState& state : states_) {
    state.undo.drop();
    for (optim::Ema* averages : {state.averages.get(), state.follower.get()}) {
      if (averages == nullptr) continue;
      if (!step.written.empty())
        averages->committed();
      else if (state.has_update)
        averages->update();
    }
    state.has_update = false;
  }
  for (const Member& member : members_)
    if (member.commit) member.commit(step);
}

void Transaction::launch_commit(const StepAddresses& addresses) {
  std::vector<Tensor> statistics;
  std::vector<MemoryCopy> copies;
  for (const auto& [name, buffer] : nn::named_buffers(model_)) {
    if (!buffer->pending()) continue;
    const Tensor& shadow = buffer->value();
    check<DTypeError>(shadow.dtype() == DType::f32 || !is_floating(shadow.dtype()),
                      "trainer: a captured step requires buffers in f32, {} is {}", name, name_of(shadow.dtype()));
    if (shadow.dtype() == DType::f32) statistics.push_back(shadow);
    copies.push_back({buffer->mutable_committed().mutable_raw(), shadow.raw(), shadow.bytes()});
  }
  for (const optim::Ema* one : averages())
    if (one != nullptr) statistics.push_back(one->values());
  device_updates().launch(addresses, statistics);
  kernels(device()).commit({addresses, copies});
  StepAddresses own = addresses;
  for (const OptimizerState& state : states_) {
    ++own.numbers;
    if (state.averages) state.averages->launch(own);
  }
}

void Transaction::roll_back() {
  warnings_.discard_samples();
  for (const Member& member : members_)
    if (member.roll_back) member.roll_back();
}

std::vector<Warning> Transaction::find_warnings(const CommittedStep& step) {
  constexpr std::int64_t kStepsWithoutScore = 1000;
  std::vector<Warning> found = warnings_.after_commit(step);
  if (step.step != (options_.steps > 0 ? (options_.steps + 1) / 2 : kStepsWithoutScore)) return found;
  for (const OptimizerState& state : states_)
    if (state.is_scheduled && state.schedule.waits_for_loss())
      found.push_back({.kind = WarningKind::kUnusedSetting,
                       .step = step.step,
                       .direction = "optimizer",
                       .what = fmt::format("has a plateau schedule that got no loss in {} steps, so that the learning "
                                           "rate never drops",
                                           step.step),
                       .advice = "call trainer.observe(loss) after each evaluation, or use another schedule"});
  return found;
}

void Transaction::keep_gradients(std::span<const OptimizerUpdate> updates) {
  for (const OptimizerUpdate& update : updates)
    for (const optim::FlatParameters::Slice& slice : optimizers_[update.optimizer]->parameters().slices())
      slice.variable.state()->end_step(static_cast<float>(update.input.inverse_scale));
  for (const auto& [name, parameter] : nn::named_parameters(model_))
    if (parameter->state()->grad_defined) parameter->zero_grad();
}

void Transaction::hide_gradients() {
  for (const optim::FlatParameters::Slice* slice : parameters_)
    slice->variable.state()->ended_step.store(Variable::State::kCaptured, std::memory_order_relaxed);
}

void Transaction::discard_gradients() {
  for (optim::Optimizer* optimizer : optimizers_) optimizer->zero_grad();
  for (const auto& [name, parameter] : nn::named_parameters(model_)) parameter->zero_grad();
}

// ---- remedies -----------------------------------------------------------------------------------

void Transaction::promote_due() {
  for (const std::string& target : warnings_.take_due_promotions(next_step())) promote(target);
}

void Transaction::quarantine(std::int64_t sample) {
  if (data_.quarantine) data_.quarantine(sample);
}

bool Transaction::averages_are_finite() {
  return std::ranges::all_of(states_, [](const OptimizerState& state) {
    return (!state.averages || state.averages->finite()) && (!state.follower || state.follower->finite());
  });
}

bool Transaction::mend_averages(const RecoveryPoint* point) {
  const StateDict saved = point != nullptr ? converted(point->state) : StateDict{};
  for (const OptimizerState& state : states_) {
    const StateDict averages = saved.section(state.section + "/ema");
    if (state.averages) state.averages->mend(averages.empty() ? nullptr : &averages);
    if (state.follower) state.follower->mend(nullptr);
  }
  return averages_are_finite();
}

void Transaction::roll_back_to(const RecoveryPoint& point, bool state_to_blame, const io::BatchOrigin* origin) {
  const std::int64_t from = counters_.steps;
  const Totals total = counters_.total;
  if (!state_to_blame && origin != nullptr && data_.commit) data_.commit(*origin);
  const StateDict data = cursor();
  const RemediationPolicy remedies = remediation_;
  load(with_data(point.state, state_to_blame ? with_quarantine(point.state.section("data"), data) : data));
  counters_.total = total;
  set_counters(counters_);
  remediation_ = remedies;
  remediation_.rolled_back(from, counters_.steps, !state_to_blame);
}

void Transaction::with_other_weights(const std::function<void(const PutWeights& put)>& f) {
  const StateDict now = cloned(state());
  const PutWeights put = [this](const StateDict& saved) {
    const StateDict state = converted(saved);
    nn::load_state_dict(model_, model_state(state));
    for (std::size_t i = 0; i < optimizers_.size(); ++i) {
      optimizers_[i]->load_state(state.section(states_[i].section));
      if (states_[i].averages) states_[i].averages->load_state(state.section(states_[i].section + "/ema"));
    }
  };
  try {
    f(put);
  } catch (...) {
    put(now);
    throw;
  }
  put(now);
}

// ---- state --------------------------------------------------------------------------------------

std::uint64_t Transaction::other_writes() const {
  std::uint64_t sum = 0;
  for (const optim::Optimizer* optimizer : optimizers_) sum += optimizer->parameters().other_writes();
  return sum;
}

void Transaction::observe(double loss) {
  for (OptimizerState& state : states_) state.schedule.observe(loss);
  for (optim::Optimizer* optimizer : optimizers_) optimizer->observe(loss);
}

void Transaction::add_callback(Callback& callback) {
  const std::string name = callback.name();
  check<ArgumentError>(!name.empty() && name.find_first_of("/ ") == name.npos,
                       "trainer: wanted a callback's name without spaces and slashes, got '{}'", name);
  for (const Callback* other : callbacks_)
    check<ArgumentError>(other->name() != name, "trainer: two callbacks are called '{}'; give each its own name", name);
  if (const StateDict saved = loaded_callbacks_.section(name); !saved.empty()) {
    check<ArgumentError>(
        counters_.steps == loaded_step_,
        "trainer: callback '{}' is added after step {}, but its saved state is that of step {}; add it "
        "before the first step of a resumed run",
        name, counters_.steps, loaded_step_);
    callback.check_state(saved);
    callback.load_state(saved);
  }
  callbacks_.push_back(&callback);
}

void Transaction::attach(DataHooks data) {
  if (!waiting_cursor_.empty()) data.load_state(waiting_cursor_);
  waiting_cursor_ = {};
  data_ = std::move(data);
}

StateDict Transaction::state() const {
  for (const optim::Optimizer* one : optimizers_)
    optim::AveragedWeights::refuse(one->parameters(), "Trainer::state", "call it before or after evaluate()");
  StateDict state;
  for (const Member& member : members_) member.put(state);
  return state;
}

void Transaction::load(const StateDict& saved) {
  for (const optim::Optimizer* one : optimizers_)
    optim::AveragedWeights::refuse(one->parameters(), "Trainer::load_state", "call it before or after evaluate()");
  const StateDict state = converted(saved);
  std::vector<std::string> changes = changes_since(saved);
  check<CheckpointError>(
      state.integer("rng/seed") == static_cast<std::int64_t>(seed()),
      "trainer: the checkpoint was made with seed {}, this run has {}; use the same seed, or begin a new run",
      state.integer("rng/seed"), seed());
  for (const Member& member : members_) member.check(state);
  for (const Member& member : members_) member.load(state);
  changes_ = std::move(changes);
}

/// Returns `saved` as a run with these options would have written it: weights in their dtype, averages if the run has
/// some, and no headroom of another precision.
StateDict Transaction::converted(const StateDict& saved) const {
  const std::string policy = options_.precision.to_string();
  const bool other_policy = saved.text("amp/policy") != policy;
  const auto has_averages = [&](const OptimizerState& one) { return saved.contains(one.section + "/ema/updates"); };
  const auto is_unused_average = [&](const std::string& entry) {
    return std::ranges::any_of(states_, [&](const OptimizerState& one) {
      return !one.averages && entry.starts_with(one.section + "/ema/");
    });
  };
  if (!other_policy && std::ranges::all_of(states_, [&](const OptimizerState& one) {
        return has_averages(one) == (one.averages != nullptr);
      }))
    return saved;
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
    else if (!(other_policy && (name.starts_with("amp/signs/") || is_fp8_history(name))) && !is_unused_average(name))
      state.put(name, value);
  }
  for (const auto& [name, buffer] : nn::named_buffers(model_))
    if (const std::string entry = "norm/" + name; other_policy && is_fp8_history(entry))
      state.put(entry, saved.contains(entry) ? saved.values().at(entry)
                                             : Tensor::zeros(buffer->committed().shape(), buffer->committed().dtype()));
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].averages || has_averages(states_[i])) continue;
    state.put(states_[i].section + "/ema/updates", std::int64_t{0});
    for (const optim::FlatParameters::Slice& slice : optimizers_[i]->parameters().slices())
      if (const std::string weights = "model/" + slice.variable.state()->name; saved.contains(weights))
        state.put(states_[i].section + "/ema/average/" + slice.name, saved.tensor(weights).to(DType::f32));
    // otherwise the model's check reports the missing parameter
  }
  return state;
}

std::vector<std::string> Transaction::changes_since(const StateDict& saved) const {
  std::vector<std::string> changes;
  const auto differ = [&](std::string_view what, const std::string& then, const std::string& now) {
    if (then != now) changes.push_back(fmt::format("{} {} -> {}", what, then, now));
  };
  differ("precision", description_of(saved.text("amp/policy")), description_of(options_.precision.to_string()));
  differ("leaves", fmt::format("{}", saved.contains("amp/leaves") ? read_count(saved, "amp/leaves", 1) : 1),
         fmt::format("{}", leaves_with(saved)));
  if (saved.contains("amp/scaler/mode"))
    differ("loss scale", saved.text("amp/scaler/mode"), to_string(scaler_.options()));
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const OptimizerState& one = states_[i];
    std::ranges::move(optimizers_[i]->changes_since(saved.section(one.section)), std::back_inserter(changes));
    const StateDict now = one.schedule.state(), then = saved.section(section_of_schedule(one.name));
    const std::string of = one.name.empty() ? "" : fmt::format(" of {}", one.name);
    if (then.contains("kind")) differ("schedule" + of, then.text("kind"), now.text("kind"));
    if (then.contains("lr"))
      differ("lr" + of, fmt::format("{}", then.number("lr")), fmt::format("{}", now.number("lr")));
    differ("averaged weights" + of, saved.contains(one.section + "/ema/updates") ? "on" : "off",
           one.averages ? "on" : "off");
  }
  const StateDict data = data_.state ? data_.state() : StateDict{};
  if (saved.contains("data/batch") && data.contains("batch"))
    differ("batch", fmt::format("{}", saved.integer("data/batch")), fmt::format("{}", data.integer("batch")));
  return changes;
}

}  // namespace binade::amp
