#include "binade/amp/step/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>
#include <unordered_set>

#include "binade/amp/state_hash.h"
#include "binade/amp/step/trial.h"
#include "binade/autograd/node.h"
#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/nn/linear.h"
#include "binade/optim/clip.h"

namespace binade::amp {
namespace {

constexpr std::size_t kKeptResults = 10000;
constexpr double kNarrow = 1;  // binades: an op that would have less left in its own dtype stays promoted

LossScaleOptions loss_scale_of(const TrainerOptions& options) {
  if (options.loss_scale) return *options.loss_scale;
  return options.precision.dynamic_loss_scale ? LossScaleOptions::dynamic() : LossScaleOptions::off();
}

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
             << incident.remedy.what;
}

Trainer::Trainer(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : runtime_(runtime),
      model_(model),
      optimizer_(optimizer),
      options_(std::move(options)),
      scaler_(loss_scale_of(options_)),
      schedule_(options_.schedule ? *options_.schedule : optim::Schedule::constant(optimizer.lr())),
      ladder_(options_.ladder) {
  check_options(options_);
  nn::assign_paths(model_);
  nn::use_fp8(model_, options_.precision.fp8_linear);
  if (!options_.precision.master_weights)
    optimizer_.store_weights_in(options_.precision.low, options_.precision.stochastic_rounding);
  if (options_.ema) ema_.emplace(optimizer_.parameters(), *options_.ema);
  drill_ = FireDrill(options_.inject, model_);
  check<ArgumentError>(options_.ahead >= 0 && options_.ahead <= static_cast<std::int64_t>(StepRecorder::kMostUnderWay),
                       "trainer: wanted 0 to {} steps ahead, got {}", StepRecorder::kMostUnderWay, options_.ahead);
  if (options_.record) recorder_ = std::make_unique<StepRecorder>(runtime_, model_, optimizer_, ema());
}

double Trainer::lr_of(std::int64_t step) const {
  return (options_.schedule ? schedule_.lr(step) : optimizer_.lr()) * ladder_.lr_factor(step);
}

std::vector<StepResult> Trainer::finished() {
  const std::deque<StepResult> ended = std::exchange(finished_, {});
  return {ended.begin(), ended.end()};
}

// ---- one step -----------------------------------------------------------------------------------

StepResult Trainer::run_step(const StepFeed& feed) {
  check<ArgumentError>(!feed.origins.empty(), "trainer: a step wants at least one micro-batch");
  if (std::optional<StepResult> sent = send_ahead(feed)) return *std::move(sent);
  if (std::optional<StepResult> back = settle_all()) return *std::move(back);
  return make_step(feed, Recorded::kWherePossible);
}

StepResult Trainer::make_step(const StepFeed& feed, Recorded recorded) {
  const StepContextScope context(runtime_.seed(), steps_ + 1);
  begun_ = std::chrono::steady_clock::now();
  drill_.before_step(steps_ + 1, optimizer_);
  prevent();
  if (recorded == Recorded::kWherePossible)
    if (std::optional<StepResult> made = make_recorded(feed)) return *std::move(made);
  Trial trial(feed);
  trial.plan.policy = ladder_.applied_to(options_.precision);
  if (steps_ == 0 && scaler_.options().measure) measure_scale(trial);
  trial.raised = prove_signs(trial);
  for (Next next = Next::kAgain; next == Next::kAgain;) {
    StepResult result;
    result.step = steps_ + 1;
    result.attempt = ++attempts_;
    result.left_out = trial.parts_left_out;
    result.rows_left_out = trial.plan.rows;
    if (options_.state_hash) result.state_hash_before = amp::state_hash(collect());
    telemetry_.begin(signs_.looks(result.step));
    trial.plan.scale = scaler_.scale();
    trial.plan.policy = ladder_.applied_to(options_.precision);
    first_run_ = result.attempt == 1;
    backend_of(runtime_.device()).reset_peak();
    begun_ = std::chrono::steady_clock::now();
    const StepState state = attempt_with_room(trial.plan, feed);
    telemetry_.settle();
    tell(state, result);
    if (state.commits()) {
      if (recorder_ && result.attempt == 1) recorder_->made_op_by_op(state.loss, state.scan);
      watch_commit(state, trial, result, [&] { write(state); });
      price();
      next = Next::kReturn;
    } else {
      abandon();
      ++skipped_;
    }
    if (options_.state_hash) result.state_hash_after = amp::state_hash(collect());
    if (!state.commits()) next = recover(state, trial, result);
    result.last = next != Next::kAgain;
    conclude(result);
    if (next == Next::kReturn) return result;
    if (next == Next::kStop)
      throw NumericError(
          fmt::format("step {}: {}; {}", result.step, result.incident->what, result.incident->remedy.what));
  }
  return {};
}

/// What an attempt came to.
void Trainer::tell(const StepState& state, StepResult& result) const {
  // As if it had been recorded: what a run tells must not depend on how a step was made.
  const bool known = runtime_.device() == Device::cpu() || !state.commits() || result.attempt > 1 ||
                     signs_.looks(result.step).libraries;
  if (known) {
    result.forward_headroom = telemetry_.least(Direction::kForward);
    result.backward_headroom = telemetry_.least(Direction::kBackward);
  }
  result.loss = state.loss;
  result.grad_norm = state.grad_norm;
  result.loss_scale = state.loss_scale;
  result.lr = state.lr;
  if (known && headroom_every_ > 0 && (result.step == 1 || result.step % headroom_every_ == 0))
    result.headroom = telemetry_.by_module();
}

StepState Trainer::attempt(const Plan& plan, const StepFeed& feed, TapeObserver* observer) {
  const LentArenas lending(backend_of(runtime_.device()));  // all is given back when the next step begins
  // The drill comes first: what it plants is what observers see.
  std::optional<ObserverScope> planting, watching;
  if (drill_.planted()) {
    drill_.before_run(steps_ + 1, std::exchange(first_run_, false), plan.rows, plan.rows_per_part);
    planting.emplace(drill_);
  }
  if (observer != nullptr) watching.emplace(*observer);
  StepState state;
  state.step = steps_ + 1;
  state.loss_scale = plan.scale;
  state.micro_batches = static_cast<int>(plan.parts.size());
  state.lr = next_lr() * drill_.lr_factor();
  const PolicyScope precision(plan.policy);
  const nn::TransactionScope transaction;
  const GradGuard recording;
  forget_gradients();
  try {
    run_parts(state, plan, feed);
    state.grad_norm = state.scan.norm() * state.inverse_scale();
    if (state.commits()) judge_update(state);
    if (state.commits() && options_.on_nan == OnNan::kLadder && spikes_.absurd(state.loss, state.grad_norm))
      state.cause = AbortCause::kSpike;
  } catch (...) {
    abandon();
    throw;
  }
  return state;
}

void Trainer::run_parts(StepState& state, const Plan& plan, const StepFeed& feed) {
  double sum = 0;
  int done = 0;
  for (const int part : plan.parts) {
    std::vector<std::int64_t> without;
    for (const std::int64_t row : plan.rows)
      if (row / plan.rows_per_part == part) without.push_back(row % plan.rows_per_part);
    state.cause = run_part(state, part, without, feed);
    sum += state.loss;
    ++done;
    if (state.commits()) continue;
    if (plan.parts.size() > 1) state.bad_micro_batch = part;
    break;
  }
  // A bad loss is told as it is; a mean would only hide which value it was.
  if (state.cause != AbortCause::kLoss) state.loss = sum / done;
}

AbortCause Trainer::run_part(StepState& state, int part, std::span<const std::int64_t> without, const StepFeed& feed) {
  step_context().micro_batch = static_cast<std::uint32_t>(part);
  step_context().tape_index = 0;
  const Variable loss = feed.loss(part, without);
  check<ArgumentError>(loss.defined() && loss.value().numel() == 1,
                       "trainer: the closure must return a loss of one element; average it over the batch");
  check_overrides(loss);
  // On a GPU backward is sent after forward without a look at the loss: the host waits once, for all of it.
  const bool looks_first = runtime_.device() == Device::cpu();
  if (looks_first)
    if (const AbortCause cause = judge_forward(state, loss); cause != AbortCause::kNone) return cause;
  backward(loss, state.loss_scale);
  drill_.after_gradients(optimizer_.parameters());
  const optim::GradientScan scan = optim::scan_gradients(optimizer_.parameters());
  if (!looks_first)
    if (const AbortCause cause = judge_forward(state, loss); cause != AbortCause::kNone) return cause;
  state.scan = scan;
  return judge_gradients(state.scan);
}

AbortCause Trainer::judge_forward(StepState& state, const Variable& loss) {
  state.loss = loss.item();
  if (!std::isfinite(state.loss)) {
    state.scan.largest = 0x7fc00000u;  // no gradients: their norm is unknown, told as nan
    return AbortCause::kLoss;
  }
  state.bad_buffer = first_bad_buffer(model_);
  return state.bad_buffer.empty() ? AbortCause::kNone : AbortCause::kStatistics;
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

void Trainer::conclude(StepResult& result) {
  forget_gradients();
  if (recorder_)
    for (std::string& note : recorder_->take_notes()) result.notes.push_back(std::move(note));
  result.skipped_total = skipped_;
  finished_.push_back(result);
  if (finished_.size() > kKeptResults) finished_.pop_front();
}

void Trainer::write(const StepState& state) {
  optimizer_.step(step_input(state));
  for (const auto& [name, buffer] : nn::named_buffers(model_)) buffer->commit();
  if (ema_) ema_->update();
}

void Trainer::account(const StepState& state, const Trial& trial, StepResult& result) {
  scaler_.committed(result.backward_headroom.binades);
  spikes_.accepted(state.loss, state.grad_norm);
  ++steps_;
  attempts_ = incidents_ = skips_ = 0;
  if (trial.feed.origins.back() != nullptr && data_.commit) data_.commit(*trial.feed.origins.back());
  const DType low = options_.precision.low;
  result.notes = ladder_.review(steps_, [&](const std::string& target) {
    return telemetry_.headroom_in(low, target) < kNarrow;
  });
  result.committed = true;
  drill_.after_commit(steps_, optimizer_);
}

/// What ops cost in f32 is told with the incident that made them go there: against the step before.
void Trainer::price() {
  const auto now = std::chrono::steady_clock::now();
  const StepCost cost{.seconds = std::chrono::duration<double>(now - std::exchange(begun_, now)).count(),
                      .bytes = static_cast<double>(backend_of(runtime_.device()).bytes_peak())};
  for (auto one = finished_.rbegin(); one != finished_.rend() && one->step == steps_; ++one) {
    if (!one->incident || one->incident->remedy.action != RemedyAction::kPromoteOp || cost_.seconds == 0) continue;
    one->incident->remedy.throughput_ratio = cost_.seconds / cost.seconds;
    one->incident->remedy.memory_ratio = cost.bytes / cost_.bytes;
  }
  cost_ = cost;
}

void Trainer::abandon() {
  for (const auto& [name, buffer] : nn::named_buffers(model_)) buffer->rollback();
  forget_gradients();
}

/// Also clears gradients of parameters outside the optimizer: nothing else would.
void Trainer::forget_gradients() {
  optimizer_.zero_grad();
  for (const auto& [name, parameter] : nn::named_parameters(model_)) parameter->zero_grad();
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
    : context_(step_context()),
      policy_(trainer.ladder_.applied_to(trainer.options_.precision)),
      lending_(backend_of(trainer.runtime_.device())) {
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

}  // namespace binade::amp
