#include "binade/amp/step/transaction.h"

#include "binade/amp/verdict.h"
#include "binade/core/kernels/table.h"
#include "binade/core/state_copy.h"
#include "binade/core/state_counts.h"
#include "binade/io/checkpoint/sections.h"
#include "binade/io/data/batch_order.h"
#include "binade/nn/linear.h"

namespace binade::amp {
namespace {

const io::CheckpointSection kSections[] = {"amp", "data", "model", "norm", "optim", "progress", "rng", "sched"};

constexpr double kMinHeadroom = 1;  // an op stays promoted if it has fewer binades of headroom in its original dtype

LossScaleOptions loss_scale_of(const TrainerOptions& options) {
  if (options.loss_scale) return *options.loss_scale;
  return options.precision.dynamic_loss_scale ? LossScaleOptions::dynamic() : LossScaleOptions::off();
}

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

/// Returns "fp16 with head=f32". Throws CheckpointError if `policy` is damaged.
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

/// True for the amax histories of fp8 products (nn/linear.h). Only runs in fp8 have them.
bool is_fp8_history(const std::string& entry) { return entry.starts_with("norm/") && entry.ends_with("fp8_amax"); }

/// Converts `value` to the dtype of `parameter`.
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

/// Returns `state` with its data section replaced by `data`.
StateDict with_data(const StateDict& state, const StateDict& data) {
  StateDict result;
  for (const auto& [name, value] : state.values())
    if (!name.starts_with("data/")) result.put(name, value);
  result.merge("data", data);
  return result;
}

/// Returns `cursor` with the quarantine of `newer`.
StateDict with_quarantine(const StateDict& cursor, const StateDict& newer) {
  StateDict result;
  for (const auto& [name, value] : cursor.values())
    result.put(name, name == "quarantine" && newer.contains(name) ? newer.values().at(name) : value);
  return result;
}

Transaction::Totals totals_of(const StateDict& state) {
  Transaction::Totals total;
  for (const Transaction::Totals::Entry& entry : Transaction::Totals::kEntries)
    if (entry.required || state.contains(entry.name)) total.*entry.value = read_count(state, entry.name);
  return total;
}

/// Returns the sections "model" and "norm" as nn::load_state_dict() takes them.
StateDict model_state(const StateDict& state) {
  StateDict model = state.section("model");
  const StateDict norm = state.section("norm");
  for (const auto& [name, value] : norm.values()) model.put(name, value);
  return model;
}

}  // namespace

Transaction::Transaction(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer,
                         const TrainerOptions& options)
    : runtime_(runtime),
      model_(model),
      optimizer_(optimizer),
      options_(options),
      scaler_(loss_scale_of(options)),
      schedule_(options.schedule ? *options.schedule : optim::Schedule::constant(optimizer.lr())),
      remediation_(options.remediation) {
  nn::assign_paths(model_);
  nn::use_fp8(model_, options.precision.fp8_linear);
  if (!options.precision.master_weights)
    optimizer_.store_weights_in(options.precision.low, options.precision.stochastic_rounding);
  if (options.ema) ema_.emplace(optimizer_.parameters(), *options.ema);
  add_members();
}

/// Adds the members in the order of a commit. The optimizer is first because only its update can fail. The data is last
/// because its check already loads the cursor, which must not happen if the check of another member fails.
void Transaction::add_members() {
  Member optimizer = in_section("optim", optimizer_);
  optimizer.commit = [this](const Commit& step) {
    step.written.empty() ? optimizer_.step(step.input) : device_updates().committed(step.written);
  };
  optimizer.roll_back = [this] { optimizer_.zero_grad(); };
  members_.push_back(std::move(optimizer));

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
  };
  model.roll_back = [this] {
    for (const auto& [name, buffer] : nn::named_buffers(model_)) buffer->rollback();
    for (const auto& [name, parameter] : nn::named_parameters(model_)) parameter->zero_grad();
  };
  members_.push_back(std::move(model));

  if (ema_) {
    Member averages = in_section("optim/ema", *ema_);
    averages.commit = [this](const Commit& step) { step.written.empty() ? ema_->update() : ema_->committed(); };
    members_.push_back(std::move(averages));
  }

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

  members_.push_back(in_section("sched", schedule_));

  Member counters;
  counters.put = [this](StateDict& state) {
    state.put("amp/policy", options_.precision.to_string());
    state.put("rng/seed", static_cast<std::int64_t>(seed()));
    state.put("rng/step", counters_.steps);
    state.put("progress/step", counters_.steps);
    for (const Totals::Entry& entry : Totals::kEntries) state.put(entry.name, counters_.total.*entry.value);
  };
  const auto counters_of = [](const StateDict& state) {
    return Counters{.total = totals_of(state), .steps = read_count(state, "rng/step")};
  };
  counters.check = counters_of;
  counters.load = [this, counters_of](const StateDict& state) { counters_ = counters_of(state); };
  counters.commit = [this](const Commit& step) { counters_ = {.total = counters_.total, .steps = step.step}; };
  members_.push_back(std::move(counters));

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

double Transaction::lr_of(std::int64_t step) const {
  return (options_.schedule ? schedule_.lr(step) : optimizer_.lr()) * remediation_.lr_factor(step);
}

// ---- a step -------------------------------------------------------------------------------------

void Transaction::commit(const Commit& step) {
  warnings_.before_commit(step.step, model_, optimizer_.parameters());
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
  if (ema_) statistics.push_back(ema_->values());
  device_updates().launch(addresses, statistics);
  kernels(device()).commit({addresses, copies});
  if (ema_) ema_->launch(addresses);
}

void Transaction::roll_back() {
  for (const Member& member : members_)
    if (member.roll_back) member.roll_back();
}

void Transaction::discard_gradients() {
  optimizer_.zero_grad();
  for (const auto& [name, parameter] : nn::named_parameters(model_)) parameter->zero_grad();
}

// ---- remedies -----------------------------------------------------------------------------------

void Transaction::promote_due() {
  for (const std::string& target : warnings_.take_due_promotions(next_step())) promote(target);
}

void Transaction::quarantine(std::int64_t sample) {
  if (data_.quarantine) data_.quarantine(sample);
}

bool Transaction::mend_averages(const RecoveryPoint* point) {
  if (!ema_) return false;
  const StateDict saved = point != nullptr ? converted(point->state).section("optim/ema") : StateDict{};
  ema_->mend(point != nullptr ? &saved : nullptr);
  return ema_->finite();
}

void Transaction::roll_back_to(const RecoveryPoint& point, bool state_to_blame, const io::BatchOrigin* origin) {
  const std::int64_t from = counters_.steps;
  const Totals total = counters_.total;
  if (!state_to_blame && origin != nullptr && data_.commit) data_.commit(*origin);
  const StateDict data = cursor();
  const RemediationPolicy remedies = remediation_;
  load(with_data(point.state, state_to_blame ? with_quarantine(point.state.section("data"), data) : data));
  counters_.total = total;
  remediation_ = remedies;
  remediation_.rolled_back(from, counters_.steps, !state_to_blame);
}

void Transaction::with_other_weights(const std::function<void(const PutWeights& put)>& f) {
  const StateDict now = cloned(state());
  const PutWeights put = [this](const StateDict& saved) {
    const StateDict state = converted(saved);
    nn::load_state_dict(model_, model_state(state));
    optimizer_.load_state(state.section("optim"));
    if (ema_) ema_->load_state(state.section("optim/ema"));
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

void Transaction::attach(DataHooks data) {
  if (!waiting_cursor_.empty()) data.load_state(waiting_cursor_);
  waiting_cursor_ = {};
  data_ = std::move(data);
}

StateDict Transaction::state() const {
  StateDict state;
  for (const Member& member : members_) member.put(state);
  return state;
}

void Transaction::load(const StateDict& saved) {
  const StateDict state = converted(saved);
  std::vector<std::string> changes = changes_since(saved);
  check<CheckpointError>(state.integer("rng/seed") == static_cast<std::int64_t>(seed()),
                         "trainer: the checkpoint was made with seed {}, this run has {}", state.integer("rng/seed"),
                         seed());
  for (const Member& member : members_) member.check(state);
  for (const Member& member : members_) member.load(state);
  changes_ = std::move(changes);
}

/// Returns `saved` as a run with these options would have written it: weights in their dtype, averages if the run has
/// some, and no headroom of another precision.
StateDict Transaction::converted(const StateDict& saved) const {
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
    else if (!(other_policy && (name.starts_with("amp/signs/") || is_fp8_history(name))) &&
             (ema_ || !name.starts_with("optim/ema/")))
      state.put(name, value);
  }
  for (const auto& [name, buffer] : nn::named_buffers(model_))
    if (const std::string entry = "norm/" + name; other_policy && is_fp8_history(entry))
      state.put(entry, saved.contains(entry) ? saved.values().at(entry)
                                             : Tensor::zeros(buffer->committed().shape(), buffer->committed().dtype()));
  if (!ema_ || averages) return state;
  state.put("optim/ema/updates", std::int64_t{0});
  for (const auto& [name, parameter] : parameters)
    if (saved.contains(name))  // otherwise the model's check reports the missing parameter
      state.put("optim/ema/average/" + name.substr(6), saved.tensor(name).to(DType::f32));
  return state;
}

std::vector<std::string> Transaction::changes_since(const StateDict& saved) const {
  std::vector<std::string> changes;
  const auto differ = [&](std::string_view what, const std::string& then, const std::string& now) {
    if (then != now) changes.push_back(fmt::format("{} {} -> {}", what, then, now));
  };
  differ("precision", description_of(saved.text("amp/policy")), description_of(options_.precision.to_string()));
  if (saved.contains("amp/scaler/mode"))
    differ("loss scale", saved.text("amp/scaler/mode"), to_string(scaler_.options()));
  const StateDict now = schedule_.state();
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
