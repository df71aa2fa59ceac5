#include "binade/amp/step/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "binade/amp/incident/evaluation.h"
#include "binade/amp/incident/fault_injection.h"
#include "binade/amp/preflight/preflight.h"
#include "binade/amp/state_hash.h"
#include "binade/amp/step/metrics.h"
#include "binade/amp/step/recorder.h"
#include "binade/amp/step/remedies.h"
#include "binade/amp/step/repro_bundle.h"
#include "binade/amp/step/transaction.h"
#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/core/state_copy.h"

namespace binade::amp {
namespace {

constexpr std::size_t kKeptResults = 10000;

TrainerOptions checked(TrainerOptions o) {
  check<ArgumentError>(o.clip_norm >= 0 && o.clip_value >= 0 && o.clip_adaptive >= 0,
                       "trainer: wanted clip bounds >= 0, got norm {}, value {} and adaptive {}", o.clip_norm,
                       o.clip_value, o.clip_adaptive);
  check<ArgumentError>((o.clip_norm > 0) + (o.clip_value > 0) + (o.clip_adaptive > 0) <= 1,
                       "trainer: clip_norm, clip_value and clip_adaptive are alternatives; set one");
  check<ArgumentError>(o.accumulate >= 1 && o.steps >= 0,
                       "trainer: wanted accumulate >= 1 and steps >= 0, got {} and {}", o.accumulate, o.steps);
  check<ArgumentError>(o.ahead >= 0 && o.ahead <= static_cast<std::int64_t>(StepRecorder::kMostInFlight),
                       "trainer: wanted 0 to {} steps ahead, got {}", StepRecorder::kMostInFlight, o.ahead);
  return o;
}

/// The 50th step, the 100th, the 200th, …: among the steps in which the host reads tensors anyway.
bool compares_with_eager(std::int64_t step) {
  constexpr std::int64_t kFirst = 50;
  return step % kFirst == 0 && std::has_single_bit(static_cast<std::uint64_t>(step / kFirst));
}

/// Evaluation mode, on averaged weights, without gradients; restores all of it at the end of its life.
class EvaluationScope {
 public:
  explicit EvaluationScope(Transaction& transaction)
      : context_(step_context()), policy_(transaction.policy()), lending_(backend_of(transaction.device())) {
    nn::Module& model = transaction.model();
    modes_.emplace_back(&model, model.training());
    for (const auto& [path, module] : nn::named_modules(model)) modes_.emplace_back(module, module->training());
    step_context().seed = transaction.seed();
    step_context().step = static_cast<std::uint64_t>(transaction.count().steps);
    step_context().tape_index = 0;
    if (transaction.ema() != nullptr) averages_.emplace(*transaction.ema());
    model.eval();
  }
  ~EvaluationScope() {
    for (const auto& [module, training] : modes_) module->train(training);
    step_context() = std::move(context_);
  }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;  // parents before their children
  StepContext context_;
  NoGradGuard no_grad_;
  PolicyScope policy_;
  std::optional<optim::Ema::Scope> averages_;
  ArenaLoan lending_;
};

}  // namespace

struct Trainer::Submitted {
  StepFeed feed{};
  Attempt attempt{};
};

Trainer::Trainer(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : options_(checked(std::move(options))),
      faults_(std::make_unique<FaultInjection>()),
      transaction_(std::make_unique<Transaction>(runtime, model, optimizer, options_)),
      runner_(std::make_unique<AttemptRunner>(*transaction_, *faults_, options_)),
      remedies_(std::make_unique<Remedies>(*transaction_, *runner_, options_)),
      telemetry_(std::make_unique<Telemetry>()) {
  *faults_ = FaultInjection(options_.inject, model);
  if (options_.record) recorder_ = std::make_unique<StepRecorder>(*transaction_, *runner_);
}
Trainer::~Trainer() = default;

// ---- one step -----------------------------------------------------------------------------------

StepResult Trainer::run_step(const StepFeed& feed) {
  check<ArgumentError>(!feed.origins.empty(), "trainer: a step wants at least one micro-batch");
  if (std::optional<StepResult> submitted = submit(feed)) return *std::move(submitted);
  if (std::optional<StepResult> back = collect_all()) return *std::move(back);
  return make_step(feed, Recorded::kIfPossible);
}

StepResult Trainer::make_step(const StepFeed& feed, Recorded recorded) {
  const StepContextScope context(transaction_->seed(), transaction_->next_step());
  cost_.begun = std::chrono::steady_clock::now();
  faults_->before_step(transaction_->next_step(), transaction_->optimizer());
  transaction_->promote_due();
  if (recorded == Recorded::kIfPossible)
    if (std::optional<StepResult> made = make_recorded(feed)) return *std::move(made);
  Trial trial = trial_of(feed);
  if (transaction_->count().steps == 0 && transaction_->scaler().options().measure) measure_scale(trial);
  trial.raised = prove_warnings(trial);
  for (std::size_t attempts = 1;; ++attempts) {
    StepResult result;
    result.step = transaction_->next_step();
    result.attempt = transaction_->begin_attempt();
    result.left_out = trial.micro_batches_left_out;
    result.samples_left_out = trial.plan.left_out;
    if (options_.state_hash) result.state_hash_before = amp::state_hash(transaction_->state());
    const Attempt attempt = run_attempt(trial);
    report(attempt, result);
    Next next = Next::kReturn;
    if (attempt.commits()) {
      if (recorder_ && result.attempt == 1) recorder_->ran_eagerly(attempt.loss, attempt.scan);
      commit(attempt, trial, result, {});
      measure_cost();
    } else {
      transaction_->roll_back();
      transaction_->count_aborted();
    }
    if (options_.state_hash) result.state_hash_after = amp::state_hash(transaction_->state());
    if (!attempt.commits()) next = remedies_->answer(attempt, trial, result);
    if (result.incident) {
      result.incident->drill = faults_->concerns(result.step);
      result.incident->headroom = telemetry_->by_module();
      if (recorder_ && result.went_back()) recorder_->forget();
    }
    result.last = next != Next::kAgain;
    conclude(result);
    if (next == Next::kReturn) return with_earlier(std::move(result), attempts);
    if (next == Next::kStop)
      throw NumericError(
          fmt::format("step {}: {}; {}", result.step, result.incident->what, result.incident->remedy.what));
  }
}

/// Runs the next attempt of the trial. If memory runs out, drops the captured graphs and retries once.
Attempt Trainer::run_attempt(Trial& trial) {
  Backend& backend = backend_of(transaction_->device());
  const Telemetry::Probes probes = transaction_->warnings().probes(trial.plan.step);
  trial.plan.loss_scale = transaction_->scaler().scale();
  trial.plan.policy = transaction_->policy();
  Plan plan = trial.plan;
  plan.first = transaction_->count().attempts == 1;
  const auto run = [&] {
    telemetry_->begin(probes);
    return runner_->run(plan, trial.feed, options_.telemetry ? telemetry_.get() : nullptr);
  };
  backend.reset_peak();
  cost_.begun = std::chrono::steady_clock::now();
  Attempt attempt;
  try {
    attempt = run();
  } catch (const OutOfMemoryError&) {
    if (!recorder_ || !recorder_->holds_graphs()) throw;
    recorder_->forget();
    backend.trim();
    plan.first = false;
    attempt = run();
  }
  telemetry_->settle();
  return attempt;
}

void Trainer::report(const Attempt& attempt, StepResult& result) const {
  // As if the step had been captured: the results of a run must not depend on how it ran its steps.
  const bool known = transaction_->device() == Device::cpu() || !attempt.commits() || result.attempt > 1 ||
                     transaction_->warnings().probes(result.step).libraries;
  if (known) {
    result.forward_headroom = telemetry_->least(Direction::kForward);
    result.backward_headroom = telemetry_->least(Direction::kBackward);
  }
  result.loss = attempt.loss;
  result.grad_norm = attempt.grad_norm;
  result.loss_scale = attempt.loss_scale;
  result.lr = attempt.lr;
  if (known && headroom_every_ > 0 && (result.step == 1 || result.step % headroom_every_ == 0))
    result.headroom = telemetry_->by_module();
}

/// `written`: of a step that the device committed; else the host writes the update.
void Trainer::commit(const Attempt& attempt, const Trial& trial, StepResult& result,
                     std::span<const BlockExtremes> written) {
  const optim::StepInput input = runner_->update_of(attempt);
  transaction_->commit({.step = result.step,
                        .input = input,
                        .loss = attempt.loss,
                        .grad_norm = attempt.grad_norm,
                        .headroom = result.backward_headroom.binades,
                        .origin = trial.feed.origins.back(),
                        .telemetry = *telemetry_,
                        .written = written,
                        .notes = result.notes});
  result.committed = true;
  faults_->after_commit(result.step, transaction_->optimizer());
  const LossScaler& scaler = transaction_->scaler();
  const CommittedStep step{.step = result.step,
                           .seen = *telemetry_,
                           .raised = trial.raised ? &*trial.raised : nullptr,
                           .optimizer = transaction_->optimizer(),
                           .input = input,
                           .loss = attempt.loss,
                           .grad_norm = attempt.grad_norm,
                           .loss_scale = attempt.loss_scale,
                           .least_scale = scaler.adjustable() ? scaler.options().floor : attempt.loss_scale,
                           .stochastic = options_.precision.stochastic_rounding,
                           .prevents = options_.on_nan == OnNan::kRemedy};
  result.warnings = transaction_->find_warnings(step);
  result.metrics = metrics_of({.step = step, .result = result, .warnings = transaction_->warnings()});
}

/// Adds to incidents of this step that promoted ops what the promotion costs, against the step before.
void Trainer::measure_cost() {
  const auto now = std::chrono::steady_clock::now();
  const Cost cost{.seconds = std::chrono::duration<double>(now - cost_.begun).count(),
                  .bytes = static_cast<double>(backend_of(transaction_->device()).bytes_peak()),
                  .begun = now};
  const std::int64_t step = transaction_->count().steps;
  for (auto one = finished_.rbegin(); one != finished_.rend() && one->step == step; ++one) {
    if (!one->incident || one->incident->remedy.action != RemedyAction::kPromoteOp || cost_.seconds == 0) continue;
    one->incident->remedy.throughput_ratio = cost_.seconds / cost.seconds;
    one->incident->remedy.memory_ratio = cost.bytes / cost_.bytes;
  }
  cost_ = cost;
}

void Trainer::conclude(StepResult& result) {
  transaction_->forget_gradients();
  if (recorder_)
    for (std::string& note : recorder_->take_notes()) result.notes.push_back(std::move(note));
  result.skipped_total = transaction_->count().total.skipped;
  finished_.push_back(result);
  if (finished_.size() > kKeptResults) finished_.pop_front();
}

/// The result of step(): `last`, which is the last of so many attempts at its batch.
StepResult Trainer::with_earlier(StepResult last, std::size_t attempts) const {
  const auto end = std::prev(finished_.end());
  last.earlier.assign(end - static_cast<std::ptrdiff_t>(std::min(attempts, finished_.size()) - 1), end);
  return last;
}

std::vector<StepResult> Trainer::finished() {
  const std::deque<StepResult> ended = std::exchange(finished_, {});
  return {ended.begin(), ended.end()};
}

/// Finds the first loss scale from the headroom of a backward that is not committed.
void Trainer::measure_scale(const Trial& trial) {
  Plan plan = trial.plan;
  const double floor = transaction_->scaler().options().floor;
  for (plan.loss_scale = transaction_->scaler().scale();; plan.loss_scale = std::max(plan.loss_scale * 0x1p-8, floor)) {
    telemetry_->begin();
    runner_->rehearse(plan, trial.feed, telemetry_.get());
    telemetry_->settle();
    const double headroom = telemetry_->least(Direction::kBackward).binades;
    if (!std::isfinite(headroom) && plan.loss_scale > floor) continue;
    transaction_->begin_with_scale(plan.loss_scale, headroom);
    return;
  }
}

/// Telemetry of an extra run at a higher loss scale, in steps in which a warning needs one.
std::optional<Telemetry> Trainer::prove_warnings(const Trial& trial) {
  const std::optional<double> factor = transaction_->warnings().proof_factor(trial.plan.step);
  if (!factor) return std::nullopt;
  Plan plan = trial.plan;
  plan.loss_scale = transaction_->scaler().scale() * *factor;
  Telemetry observed;
  observed.begin({.zeros = true});
  const Attempt raised = runner_->rehearse(plan, trial.feed, &observed);
  observed.settle();
  return raised.scan.finite() ? std::optional(std::move(observed)) : std::nullopt;
}

// ---- captured steps -----------------------------------------------------------------------------

/// True for a first attempt under the run's own policy, without faults to plant and hashes to compute.
bool Trainer::can_be_recorded(const StepFeed& feed) const {
  const Transaction::Counters& count = transaction_->count();
  return recorder_ && feed.loss_of && feed.contents && count.attempts == 0 && count.steps > 0 && !faults_->planted() &&
         !options_.state_hash && options_.clip_adaptive == 0 &&
         std::ranges::none_of(transaction_->remediation().promotions(),
                              [](const RemediationPolicy::Promotion& p) { return p.active; });
}

/// The attempt at the step that comes `ahead` steps after the next one, as it begins.
Attempt Trainer::attempt_at(const StepFeed& feed, std::int64_t ahead) const {
  Attempt attempt;
  attempt.step = transaction_->next_step() + ahead;
  attempt.loss_scale = transaction_->scaler().scale();
  attempt.micro_batches = static_cast<int>(feed.origins.size());
  attempt.lr = transaction_->lr_of(attempt.step);
  return attempt;
}

RecordedStep Trainer::recorded_step(const StepFeed& feed, const Attempt& attempt) const {
  const std::int64_t ahead = attempt.step - transaction_->next_step();
  RecordedStep step{.number = attempt.step,
                    .closure = feed.closure,
                    .loss = feed.loss_of,
                    .policy = options_.precision,
                    .loss_scale = attempt.loss_scale,
                    .input = runner_->update_of(attempt),
                    .clip_norm = options_.clip_norm,
                    .loss_bound = options_.on_nan == OnNan::kRemedy ? transaction_->spikes().bound(ahead)
                                                                    : std::numeric_limits<double>::infinity(),
                    .telemetry = options_.telemetry,
                    .probes = transaction_->warnings().probes(attempt.step)};
  for (int i = 0; i < attempt.micro_batches; ++i) step.batch.push_back(feed.contents(i));
  return step;
}

/// Runs the next step as a graph. Nothing if it must run eagerly, as a step does that the device did not commit: then
/// everything is as before.
std::optional<StepResult> Trainer::make_recorded(const StepFeed& feed) {
  const std::int64_t number = transaction_->next_step();
  const bool compare = compares_with_eager(number);
  if (!can_be_recorded(feed) || (transaction_->warnings().reads_tensors(number) && !compare)) return std::nullopt;
  const Attempt attempt = attempt_at(feed, 0);
  RecordedStep step = recorded_step(feed, attempt);
  if (compare) {
    step.compare = true;
    step.probes = {};  // the graph that runs most often is compared
  }
  telemetry_->begin();
  const std::optional<DeviceOutcome> outcome = recorder_->run(step, *telemetry_);
  if (outcome && outcome->commits()) return take_over(feed, attempt, *outcome);
  transaction_->roll_back();
  return std::nullopt;
}

/// Completes a step that the device committed.
StepResult Trainer::take_over(const StepFeed& feed, Attempt attempt, const DeviceOutcome& outcome) {
  attempt.loss = outcome.loss;
  attempt.scan = outcome.scan;
  attempt.grad_norm = attempt.scan.norm() * attempt.inverse_scale();
  runner_->set_clip_factor(attempt);
  attempt.proof = {.finite = true, .by_bound = true};
  StepResult result;
  result.step = attempt.step;
  result.attempt = transaction_->begin_attempt();
  report(attempt, result);
  commit(attempt, trial_of(feed), result, outcome.extremes);
  measure_cost();
  result.last = true;
  conclude(result);
  return result;
}

/// Submits the step behind those in flight, as many as there may be; nothing if it must run by itself. Unfinished steps
/// cannot have decided anything about it yet: decisions apply kTelemetryDelay steps late. A result that is not in
/// flight is that of an earlier step, which made the run go back.
std::optional<StepResult> Trainer::submit(const StepFeed& feed) {
  if (!recorder_ || options_.ahead == 0 || !feed.copy) return std::nullopt;
  while (in_flight() >= options_.ahead)
    if (std::optional<StepResult> back = collect_oldest()) return back;
  const std::int64_t ahead = in_flight();
  const Attempt attempt = attempt_at(feed, ahead);
  const Warnings& warnings = transaction_->warnings();
  if (!can_be_recorded(feed) || compares_with_eager(attempt.step) || warnings.reads_tensors(attempt.step) ||
      warnings.has_due(attempt.step) || !transaction_->scaler().stays_for(ahead) ||
      !recorder_->submit(recorded_step(feed, attempt)))
    return std::nullopt;
  if (ahead == 0) cost_.begun = std::chrono::steady_clock::now();
  in_flight_.push_back(std::make_unique<Submitted>(Submitted{feed.copy(), attempt}));
  StepResult result;
  result.step = attempt.step;
  result.loss_scale = attempt.loss_scale;
  result.lr = attempt.lr;
  result.in_flight = true;
  return result;
}

/// Finishes the oldest step in flight. If the device did not commit it, that step runs again, eagerly, and then those
/// behind it, of which it committed none. If a step makes the run go back to a checkpoint, returns its result and drops
/// those behind it: their batches come again.
std::optional<StepResult> Trainer::collect_oldest() {
  telemetry_->begin();
  const DeviceOutcome outcome = recorder_->collect(*telemetry_);
  if (outcome.commits()) {
    const std::unique_ptr<Submitted> oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    take_over(oldest->feed, oldest->attempt, outcome);
    return std::nullopt;
  }
  transaction_->roll_back();
  Recorded recorded = Recorded::kNot;
  for (const std::unique_ptr<Submitted>& one : std::exchange(in_flight_, {})) {
    StepResult result = make_step(one->feed, std::exchange(recorded, Recorded::kIfPossible));
    if (result.went_back()) return result;
  }
  return std::nullopt;
}

std::optional<StepResult> Trainer::collect_all() {
  while (!in_flight_.empty())
    if (std::optional<StepResult> back = collect_oldest()) return back;
  return std::nullopt;
}

bool Trainer::has_made(std::int64_t steps) {
  if (transaction_->count().steps + in_flight() < steps) return false;
  synchronize();
  return transaction_->count().steps >= steps;
}

// ---- beside steps -------------------------------------------------------------------------------

Trial Trainer::trial_of(const StepFeed& feed) const {
  return {feed,
          {.step = transaction_->next_step(),
           .lr = transaction_->lr_of(transaction_->next_step()),
           .policy = transaction_->policy()}};
}

PreflightReport Trainer::run_preflight(const std::function<Variable()>& closure) {
  synchronize();
  LossScaleOptions scale = transaction_->scaler().options();
  if (transaction_->scaler().adjustable()) scale.init_scale = transaction_->scaler().scale();
  optim::Optimizer& optimizer = transaction_->optimizer();
  return amp::preflight(
      {.model = transaction_->model(),
       .optimizer = optimizer,
       .policy = transaction_->policy(),
       .loss_scale = scale,
       .lr = options_.schedule ? options_.schedule->options().lr : optimizer.lr(),
       .ema_decay = options_.ema ? options_.ema->decay : 0,
       .at = {.seed = transaction_->seed(), .step = static_cast<std::uint64_t>(transaction_->next_step())}},
      closure);
}

std::optional<MemoryForecast> Trainer::run_forecast(const StepFeed& feed) {
  synchronize();
  // Planted faults strike in the first run of their step: that one is theirs.
  if (feed.origins.empty() || faults_->planted()) return std::nullopt;
  const StepContextScope context(transaction_->seed(), transaction_->next_step());
  return amp::forecast_memory(*runner_, trial_of(feed), transaction_->device(), options_.accumulate > 1);
}

std::shared_ptr<const void> Trainer::evaluation_scope() {
  synchronize();
  return std::make_shared<EvaluationScope>(*transaction_);
}

Incident Trainer::investigate_evaluation(const std::string& what, const std::function<void()>& again) {
  FirstBadSearch search(0);
  {
    const std::shared_ptr<const void> scope = evaluation_scope();
    const ObserverScope watched(search);
    again();
  }
  return diagnose_evaluation(steps(), what, search, transaction_->model(), transaction_->ema() != nullptr);
}

std::vector<StateDict> Trainer::begin_replay(const StateDict& bundle) {
  check_repro_bundle(bundle);
  const std::vector<std::string> changes = transaction_->changes_since(bundle);
  check<CheckpointError>(changes.empty(),
                         "replay: the run that wrote the repro bundle had other settings: {}; use its own",
                         changes.empty() ? "" : changes.front());
  load_state(bundle);
  return micro_batches_of(bundle);
}

ReproReplay Trainer::run_replay(const StateDict& bundle, const StepFeed& feed) {
  const StepContextScope context(transaction_->seed(), transaction_->next_step());
  Trial trial = trial_of(feed);
  read_plan(bundle, trial);
  const Attempt attempt = runner_->rehearse(trial.plan, feed);
  trial.plan.first = false;
  ReproReplay replay{.same_bits = same_bits(attempt, bundle)};
  replay.incident = {.step = attempt.step,
                     .attempt = attempt_number_of(bundle),
                     .what = describe(attempt, transaction_->optimizer().parameters())};
  if (!attempt.commits()) replay.incident.diagnosis = remedies_->investigate(attempt, trial);
  replay.incident.remedy = {.action = RemedyAction::kNone, .what = "nothing: this is a replay"};
  return replay;
}

// ---- state --------------------------------------------------------------------------------------

void Trainer::attach_data(std::function<StateDict()> state, std::function<void(const StateDict&)> load_state,
                          std::function<void(const io::BatchOrigin&)> commit,
                          std::function<void(std::int64_t)> quarantine) {
  transaction_->attach({std::move(state), std::move(load_state), std::move(commit), std::move(quarantine)});
}

StateDict Trainer::state() {
  synchronize();
  return cloned(transaction_->state());
}

std::string Trainer::state_hash() {
  synchronize();
  return amp::state_hash(transaction_->state());
}

void Trainer::load_state(const StateDict& state) {
  synchronize();
  transaction_->load(state);
  if (recorder_) recorder_->forget();
}

void Trainer::observe(double loss) {
  synchronize();
  transaction_->observe(loss);
}

void Trainer::promote(const std::string& target) {
  synchronize();
  transaction_->promote(target);
}

void Trainer::set_telemetry(bool on) {
  synchronize();
  options_.telemetry = on;
}

void Trainer::set_repro_sink(ReproSink sink) { remedies_->set_repro_sink(std::move(sink)); }
void Trainer::set_recovery(FindRecoveryPoint find) { remedies_->set_recovery(std::move(find)); }

std::int64_t Trainer::steps() const { return transaction_->count().steps; }
std::int64_t Trainer::skipped() const { return transaction_->count().total.skipped; }
double Trainer::next_lr() const { return transaction_->lr_of(transaction_->next_step()); }
Device Trainer::device() const { return transaction_->device(); }
const RemediationPolicy& Trainer::remediation() const { return transaction_->remediation(); }
const LossScaler& Trainer::scaler() const { return transaction_->scaler(); }
const optim::Schedule& Trainer::schedule() const { return transaction_->schedule(); }
optim::Ema* Trainer::ema() { return transaction_->ema(); }
const std::vector<std::string>& Trainer::changes() const { return transaction_->changes(); }

}  // namespace binade::amp
