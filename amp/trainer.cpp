#include "amp/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <unordered_set>

#include "amp/state_hash.h"
#include "autograd/node.h"
#include "core/error.h"
#include "optim/clip.h"

namespace binade::amp {
namespace {

constexpr std::size_t kKeptResults = 10000;

LossScaleOptions loss_scale_of(const TrainerOptions& options) {
  if (options.loss_scale) return *options.loss_scale;
  return options.precision.dynamic_loss_scale ? LossScaleOptions::dynamic() : LossScaleOptions::off();
}

/// Puts this thread's place in the run back when a step ends, however it ends.
class StepContextScope {
 public:
  StepContextScope(std::uint64_t seed, std::int64_t step) : previous_(step_context()) {
    step_context() = StepContext{};
    step_context().seed = seed;
    step_context().step = static_cast<std::uint64_t>(step);
  }
  ~StepContextScope() { step_context() = std::move(previous_); }
  StepContextScope(const StepContextScope&) = delete;
  StepContextScope& operator=(const StepContextScope&) = delete;

 private:
  StepContext previous_;
};

void check_options(const TrainerOptions& o) {
  check<ArgumentError>(o.clip_norm >= 0 && o.clip_value >= 0 && o.clip_adaptive >= 0,
                       "trainer: wanted clip bounds >= 0, got norm {}, value {} and adaptive {}", o.clip_norm,
                       o.clip_value, o.clip_adaptive);
  check<ArgumentError>((o.clip_norm > 0) + (o.clip_value > 0) + (o.clip_adaptive > 0) <= 1,
                       "trainer: clip_norm, clip_value and clip_adaptive are alternatives; set one");
  check<ArgumentError>(o.accumulate >= 1 && o.steps >= 0,
                       "trainer: wanted accumulate >= 1 and steps >= 0, got {} and {}", o.accumulate, o.steps);
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Incident& incident) {
  return out << "step " << incident.step << ", attempt " << incident.attempt << ": " << incident.what << "; "
             << incident.action;
}

/// What is remembered between the attempts of one step.
struct Trainer::Retries {
  std::vector<int> parts;
  std::vector<int> left_out;
  std::optional<LossScaler::State> before_nan;  // the scale to go back to if lowering it was no help
  bool nan_is_overflow = false;                 // settled: it is gone at the floor

  void nan_resolved() {
    before_nan.reset();
    nan_is_overflow = false;
  }
};

Trainer::Trainer(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : runtime_(runtime),
      model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      scaler_(loss_scale_of(options_)),
      schedule_(options_.schedule ? *options_.schedule : optim::Schedule::constant(optimizer.lr())) {
  check_options(options_);
  nn::assign_paths(model_);
  if (!options_.precision.master_weights)
    optimizer_.store_weights_in(options_.precision.low, options_.precision.stochastic_rounding);
  if (options_.ema) ema_.emplace(optimizer_.parameters(), *options_.ema);
  drill_ = FireDrill(options_.inject, model_);
}

double Trainer::next_lr() const { return options_.schedule ? schedule_.lr(steps_ + 1) : optimizer_.lr(); }

std::vector<StepResult> Trainer::finished() {
  const std::deque<StepResult> ended = std::exchange(finished_, {});
  return {ended.begin(), ended.end()};
}

// ---- one step -----------------------------------------------------------------------------------

StepResult Trainer::run_step(const Closure& closure, const Origins& origins) {
  check<ArgumentError>(!origins.empty(), "trainer: a step wants at least one micro-batch");
  const StepContextScope context(runtime_.seed(), steps_ + 1);
  drill_.before_step(steps_ + 1, optimizer_);
  Retries retries;
  retries.parts.resize(origins.size());
  std::iota(retries.parts.begin(), retries.parts.end(), 0);
  for (std::int64_t number = 1;; ++number) {
    StepResult result;
    result.step = steps_ + 1;
    result.attempt = number;
    result.left_out = retries.left_out;
    if (options_.state_hash) result.state_hash_before = state_hash();
    telemetry_.begin();
    first_run_ = number == 1;
    const StepState state = attempt(retries.parts, closure, scaler_.scale(), options_.precision, &telemetry_);
    result.forward_headroom = telemetry_.least(Direction::kForward);
    result.backward_headroom = telemetry_.least(Direction::kBackward);
    result.loss = state.loss;
    result.grad_norm = state.grad_norm;
    result.loss_scale = state.loss_scale;
    result.lr = state.lr;
    bool again = false;
    if (state.commits()) {
      commit(state, origins.back());
      result.committed = true;
    } else {
      abandon();
      ++skipped_;
      const std::vector<int> tried = retries.parts;
      Incident incident{
          .step = result.step, .attempt = number, .what = describe(state, optimizer_.parameters()), .action = ""};
      again = try_again(state, retries, closure, incident);
      const bool ordinary = again && incident.action.empty();
      if (!ordinary) {
        incident.diagnosis = investigate(state, tried, closure, origins);
        incident.drill = drill_.concerns(result.step);
        incident.headroom = telemetry_.by_module();
        result.incident = std::move(incident);
      }
    }
    result.skipped_total = skipped_;
    if (options_.state_hash) result.state_hash_after = state_hash();
    finished_.push_back(result);
    if (finished_.size() > kKeptResults) finished_.pop_front();
    if (result.committed) return result;
    if (!again)
      throw NumericError(fmt::format("step {}: {}; {}", result.step, result.incident->what, result.incident->action));
  }
}

StepState Trainer::attempt(const std::vector<int>& parts, const Closure& closure, double scale, const Policy& policy,
                           TapeObserver* observer) {
  // The drill comes first: what it plants is what observers see.
  std::optional<ObserverScope> planting, watching;
  if (drill_.planted()) {
    drill_.before_run(steps_ + 1, std::exchange(first_run_, false));
    planting.emplace(drill_);
  }
  if (observer != nullptr) watching.emplace(*observer);
  StepState state;
  state.loss_scale = scale;
  state.micro_batches = static_cast<int>(parts.size());
  state.lr = next_lr() * drill_.lr_factor();
  const PolicyScope precision(policy);
  const nn::TransactionScope transaction;
  const GradGuard recording;
  optimizer_.zero_grad();
  try {
    run_parts(state, parts, closure);
    state.grad_norm = state.scan.norm() * state.inverse_scale();
    if (state.commits()) judge_update(state);
  } catch (...) {
    abandon();
    throw;
  }
  return state;
}

void Trainer::run_parts(StepState& state, const std::vector<int>& parts, const Closure& closure) {
  double sum = 0;
  int done = 0;
  for (const int part : parts) {
    state.cause = run_part(state, part, closure);
    sum += state.loss;
    ++done;
    if (state.commits()) continue;
    if (parts.size() > 1) state.bad_micro_batch = part;
    break;
  }
  // A bad loss is told as it is; a mean would only hide which value it was.
  if (state.cause != AbortCause::kLoss) state.loss = sum / done;
}

AbortCause Trainer::run_part(StepState& state, int part, const Closure& closure) {
  step_context().micro_batch = static_cast<std::uint32_t>(part);
  step_context().tape_index = 0;
  const Variable loss = closure(part);
  check<ArgumentError>(loss.defined() && loss.value().numel() == 1,
                       "trainer: the closure must return a loss of one element; average it over the batch");
  check_overrides(loss);
  state.loss = loss.item();
  if (!std::isfinite(state.loss)) {
    state.scan.largest = 0x7fc00000u;  // no gradients: their norm is unknown, told as nan
    return AbortCause::kLoss;
  }
  state.bad_buffer = first_bad_buffer(model_);
  if (!state.bad_buffer.empty()) return AbortCause::kStatistics;
  backward(loss, state.loss_scale);
  drill_.after_gradients(optimizer_.parameters());
  state.scan = optim::scan_gradients(optimizer_.parameters());
  return judge_gradients(state.scan);
}

optim::StepInput Trainer::step_input(const StepState& state) const {
  return {.inverse_scale = state.inverse_scale(),
          .clip_factor = state.clip_factor,
          .clip_value = options_.clip_value,
          .lr = state.lr};
}

void Trainer::judge_update(StepState& state) {
  if (options_.clip_norm > 0) state.clip_factor = optim::clip_factor(state.grad_norm, options_.clip_norm);
  if (options_.clip_adaptive > 0)
    optim::clip_adaptive(optimizer_.parameters(), {.limit = options_.clip_adaptive}, state.inverse_scale());
  state.proof = optimizer_.prove_finite(step_input(state), state.scan);
  if (!state.proof.finite) state.cause = AbortCause::kUpdate;
}

void Trainer::commit(const StepState& state, const io::BatchOrigin* origin) {
  optimizer_.step(step_input(state));
  for (const auto& [name, buffer] : nn::named_buffers(model_)) buffer->commit();
  if (ema_) ema_->update();
  scaler_.committed();
  ++steps_;
  if (origin != nullptr && data_.commit) data_.commit(*origin);
  drill_.after_commit(steps_, optimizer_);
}

void Trainer::abandon() {
  for (const auto& [name, buffer] : nn::named_buffers(model_)) buffer->rollback();
  optimizer_.zero_grad();
}

// ---- after an abort -----------------------------------------------------------------------------

bool Trainer::finite_at_floor(const Retries& retries, const Closure& closure) {
  if (!scaler_.can_lower()) return false;
  const StepState probe = attempt(retries.parts, closure, scaler_.options().floor, options_.precision, nullptr);
  abandon();
  return probe.cause == AbortCause::kNone || probe.cause == AbortCause::kUpdate;
}

Diagnosis Trainer::investigate(const StepState& state, const std::vector<int>& parts, const Closure& closure,
                               const Origins& origins) {
  const Replay replay = [&](const Variant& variant, TapeObserver* observer) {
    Policy policy = options_.precision;
    for (const PrecisionPolicy::Override& promoted : variant.promote)
      policy = policy.with(promoted.glob, promoted.dtype);
    const StepState outcome = attempt(parts, closure, variant.scale.value_or(state.loss_scale), policy, observer);
    abandon();
    return outcome;
  };
  const std::int64_t rows = origins.front() != nullptr ? static_cast<std::int64_t>(origins.front()->samples.size()) : 0;
  Diagnosis diagnosis = diagnose(state, rows, replay);
  if (diagnosis.first_bad && diagnosis.first_bad->sample && rows > 0) {
    FirstBad& bad = *diagnosis.first_bad;
    const io::BatchOrigin* origin = origins[static_cast<std::size_t>(bad.micro_batch)];
    if (origin != nullptr) bad.sample_id = origin->samples[static_cast<std::size_t>(*bad.sample % rows)];
  }
  return diagnosis;
}

bool Trainer::try_again(const StepState& state, Retries& retries, const Closure& closure, Incident& incident) {
  const bool nan = state.cause == AbortCause::kNan;
  bool by_scale = (state.cause == AbortCause::kOverflow || nan) && scaler_.can_lower();
  if (by_scale && nan && !retries.nan_is_overflow) {
    if (!retries.before_nan)
      retries.before_nan = scaler_.snapshot();  // half the scale is tried next
    else
      by_scale = retries.nan_is_overflow = finite_at_floor(retries, closure);
  }
  if (by_scale) {
    const ScaleVerdict verdict = scaler_.overflowed();
    if (verdict == ScaleVerdict::kLowered) return true;
    incident.action = explain(verdict, scaler_.options()) + "; nothing was committed";
    return false;
  }
  if (retries.before_nan) scaler_.restore(*retries.before_nan);
  if (leave_out(state, retries, incident)) return true;
  std::string why;
  if (nan && retries.before_nan)
    why = "lowering the loss scale does not help; ";
  else if (nan || state.cause == AbortCause::kOverflow)
    why = explain(scaler_.adjustable() ? ScaleVerdict::kAtFloor : ScaleVerdict::kNotAdjustable, scaler_.options()) +
          "; ";
  incident.action = why + "nothing was committed";
  return false;
}

bool Trainer::leave_out(const StepState& state, Retries& retries, Incident& incident) {
  if (state.bad_micro_batch < 0 || retries.parts.size() < 2) return false;
  std::erase(retries.parts, state.bad_micro_batch);
  retries.left_out.push_back(state.bad_micro_batch);
  retries.nan_resolved();
  incident.action = fmt::format("micro-batch {} is left out", state.bad_micro_batch);
  incident.remedy = "skip-batch";
  return true;
}

void Trainer::check_overrides(const Variable& loss) {
  if (overrides_checked_ || options_.precision.overrides.empty()) return;
  std::vector<std::string> names;
  for (const auto& [path, module] : nn::named_modules(model_)) names.push_back(path);
  std::vector<const Node*> nodes;
  std::unordered_set<const Node*> seen;
  const auto add = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) nodes.push_back(node);
  };
  if (loss.defined()) add(loss.state()->node.get());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    names.push_back(nodes[i]->module_path());
    names.emplace_back(nodes[i]->info().name);
    names.push_back(fmt::format("{}/{}", nodes[i]->module_path(), nodes[i]->info().name));
    for (const Edge& edge : nodes[i]->edges()) add(edge.node.get());
  }
  amp::check_overrides(options_.precision, names);
  overrides_checked_ = true;
}

// ---- evaluation ---------------------------------------------------------------------------------

Trainer::EvaluationScope::EvaluationScope(Trainer& trainer)
    : context_(step_context()), policy_(trainer.options_.precision) {
  modes_.emplace_back(&trainer.model_, trainer.model_.training());
  for (const auto& [path, module] : nn::named_modules(trainer.model_)) modes_.emplace_back(module, module->training());
  step_context().seed = trainer.runtime_.seed();
  step_context().step = static_cast<std::uint64_t>(trainer.steps_);
  step_context().tape_index = 0;
  if (trainer.ema_) averages_.emplace(*trainer.ema_);
  trainer.model_.eval();
}

Trainer::EvaluationScope::~EvaluationScope() {
  for (const auto& [module, training] : modes_) module->train(training);
  step_context() = std::move(context_);
}

// ---- state --------------------------------------------------------------------------------------

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
  state.merge("sched", schedule_.state());
  state.put("rng/seed", static_cast<std::int64_t>(runtime_.seed()));
  state.put("rng/step", steps_);
  state.merge("data", data_.state ? data_.state() : waiting_cursor_);
  state.put("progress/step", steps_);
  state.put("progress/skipped_total", skipped_);
  return state;
}

StateDict Trainer::state() const {
  const StateDict aliases = collect();
  StateDict copies;
  for (const auto& [name, value] : aliases.values()) {
    const Tensor* tensor = std::get_if<Tensor>(&value);
    copies.put(name, tensor != nullptr ? StateDict::Value(tensor->clone()) : value);
  }
  return copies;
}

std::string Trainer::state_hash() const { return amp::state_hash(collect()); }

void Trainer::check_state(const StateDict& state) const {
  check<CheckpointError>(
      state.text("amp/policy") == options_.precision.to_string(),
      "trainer: the checkpoint was made in {}, this run computes in {}; use the same precision, or start from "
      "its weights alone",
      state.text("amp/policy"), options_.precision.to_string());
  check<CheckpointError>(state.integer("rng/seed") == static_cast<std::int64_t>(runtime_.seed()),
                         "trainer: the checkpoint was made with seed {}, this run has {}", state.integer("rng/seed"),
                         runtime_.seed());
  const bool averaged = state.contains("optim/ema/updates");
  check<CheckpointError>(averaged == ema_.has_value(), "trainer: the checkpoint {} averaged weights, this run {}",
                         averaged ? "holds" : "holds no", ema_ ? "keeps them" : "keeps none");
  check<CheckpointError>(state.integer("rng/step") >= 0 && state.integer("progress/skipped_total") >= 0,
                         "trainer: the checkpoint counts {} steps and {} skipped ones", state.integer("rng/step"),
                         state.integer("progress/skipped_total"));
  optimizer_.check_state(state.section("optim"));
  if (ema_) ema_->check_state(state.section("optim/ema"));
  scaler_.check_state(state.section("amp/scaler"));
  schedule_.check_state(state.section("sched"));
}

void Trainer::load_state(const StateDict& state) {
  check_state(state);
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
  schedule_.load_state(state.section("sched"));
  steps_ = state.integer("rng/step");
  skipped_ = state.integer("progress/skipped_total");
}

}  // namespace binade::amp
