#include "binade/amp/step/trainer.h"

#include <cmath>

#include "binade/amp/incident/diagnosis.h"
#include "binade/amp/incident/fault_injection.h"
#include "binade/amp/ranks/shared_telemetry.h"
#include "binade/amp/state_hash.h"
#include "binade/amp/step/callback.h"
#include "binade/amp/step/evaluation_scope.h"
#include "binade/amp/step/memory_forecast.h"
#include "binade/amp/step/metrics.h"
#include "binade/amp/step/phase_preflight.h"
#include "binade/amp/step/rehearsals.h"
#include "binade/amp/step/remedies.h"
#include "binade/amp/step/repro_bundle.h"
#include "binade/amp/step/spike_review.h"
#include "binade/amp/step/step_graphs.h"
#include "binade/amp/step/transaction.h"
#include "binade/amp/step/verification.h"
#include "binade/autograd/inference_mode.h"
#include "binade/core/backend.h"
#include "binade/core/communicator.h"
#include "binade/core/rank_tree.h"
#include "binade/core/state_copy.h"

namespace binade::amp {
namespace {

constexpr std::size_t kKeptResults = 10000;

/// True for steps 50, 100, 200, …, in which a captured step is compared with an eager one. The host must read tensors
/// in these steps anyway.
bool compares_with_eager(std::int64_t step) {
  constexpr std::int64_t kFirst = 50;
  return step % kFirst == 0 && std::has_single_bit(static_cast<std::uint64_t>(step / kFirst));
}

}  // namespace

/// A step in flight.
struct Trainer::Submitted {
  StepFeed feed{};
  Attempt attempt{};
};

Trainer::Trainer(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options)
    : Trainer(runtime, {{{.model = model}}, {{.optimizer = optimizer}}}, std::move(options)) {}
Trainer::Trainer(Runtime& runtime, nn::Module& model, std::vector<NamedOptimizer> optimizers, TrainerOptions options)
    : Trainer(runtime, {{{.model = model}}, std::move(optimizers)}, std::move(options)) {}
Trainer::Trainer(Runtime& runtime, std::vector<NamedModel> models, std::vector<NamedOptimizer> optimizers,
                 TrainerOptions options)
    : Trainer(runtime, {std::move(models), std::move(optimizers)}, std::move(options)) {}

Trainer::Trainer(Runtime& runtime, const Participants& participants, TrainerOptions options)
    : options_(checked(std::move(options))),
      faults_(std::make_unique<FaultInjection>()),
      transaction_(std::make_unique<Transaction>(runtime, participants, options_)),
      runner_(std::make_unique<AttemptRunner>(*transaction_, *faults_, options_)),
      remedies_(std::make_unique<Remedies>(*transaction_, *runner_, options_)),
      review_(std::make_unique<SpikeReview>(*transaction_, *runner_, *remedies_)),
      telemetry_(std::make_unique<Telemetry>()) {
  *faults_ = FaultInjection(options_.inject, transaction_->model(), ranks().rank());
  if (options_.record && transaction_->can_be_captured() && ranks().alone())
    graphs_ = std::make_unique<StepGraphs>(*transaction_, *runner_);
}
Trainer::~Trainer() = default;

// ---- one step -----------------------------------------------------------------------------------

StepResult Trainer::run_step(const StepFeed& feed) {
  const ExclusiveUse::Call call = transaction_->call("step");
  InferenceMode::refuse("Trainer::step", "end it before the step");
  check<ArgumentError>(!feed.origins.empty(), "trainer: a step wants at least one micro-batch, got 0");
  if (std::optional<StepResult> submitted = submit(feed)) return *std::move(submitted);
  if (std::optional<StepResult> back = collect_all()) return *std::move(back);
  return take_batch(feed, GraphUse::kIfPossible);
}

/// Runs the step of a batch. If an earlier batch waits for it (SpikeReview), first runs the step of that batch.
StepResult Trainer::take_batch(const StepFeed& feed, GraphUse graph_use) {
  if (!review_->waits()) return make_step(feed, graph_use);
  std::optional<StepResult> before = make_waiting_step(feed);
  if (!before) return make_step(feed, GraphUse::kNever);
  const bool pauses = before->step == options_.steps || (pauses_after_ && pauses_after_(before->step));
  if (before->rolled_back()) return *std::move(before);
  if (before->committed && pauses && feed.keep) {
    review_->queue(feed);
    return *std::move(before);
  }
  StepResult result = make_step(feed, GraphUse::kNever);
  if (before->incident) result.earlier.insert(result.earlier.begin(), *std::move(before));
  return result;
}

/// Runs the step of the batch that waits, or skips it. `next`: the batch after it. Returns std::nullopt if the batch
/// cannot be used any more although nothing is wrong with it.
std::optional<StepResult> Trainer::make_waiting_step(const StepFeed& next) {
  const StepContextScope context(transaction_->seed(), transaction_->next_step());
  OngoingStep ongoing = ongoing_step(next);
  ongoing.plan.loss_scale = transaction_->scaler().scale();
  const SpikeReview::Reviewed before = review_->review(ongoing);
  if (before.feed) return make_step(*before.feed, GraphUse::kNever, before.verdict);
  if (before.verdict != SpikeVerdict::kOfBatch) return std::nullopt;
  StepResult result;
  result.step = before.attempt.step;
  report(before.attempt, result);
  transaction_->count_aborted();
  result.incident = {.step = result.step, .what = describe(before.attempt, transaction_->parameters())};
  result.incident->remedy = {.action = RemedyAction::kSkipBatch, .what = "the batch is skipped", .steps_lost = 1};
  result.last = true;
  conclude(result);
  return result;
}

StepResult Trainer::make_step(const StepFeed& feed, GraphUse graph_use, SpikeVerdict spike) {
  const StepContextScope context(transaction_->seed(), transaction_->next_step());
  cost_.start = std::chrono::steady_clock::now();
  for (Callback* callback : transaction_->callbacks()) callback->before_step(transaction_->next_step());
  faults_->before_step(transaction_->next_step(), transaction_->optimizers());
  transaction_->promote_due();
  if (graph_use == GraphUse::kIfPossible)
    if (std::optional<StepResult> made = run_as_graph(feed)) return *std::move(made);
  OngoingStep ongoing = ongoing_step(feed);
  ongoing.spike = spike;
  ongoing.plan.any_loss = spike == SpikeVerdict::kAccepted || !feed.keep;
  if (transaction_->counters().steps == 0 && transaction_->scaler().options().measure)
    measure_scale(*transaction_, *runner_, ongoing, *telemetry_);
  ongoing.raised = confirm_warnings(*transaction_, *runner_, ongoing);
  for (std::size_t attempts = 1;; ++attempts) {
    StepResult result;
    result.step = transaction_->next_step();
    result.attempt = transaction_->begin_attempt();
    result.left_out = ongoing.micro_batches_left_out;
    result.samples_left_out = ongoing.plan.left_out;
    if (options_.state_hash) result.state_hash_before = amp::state_hash(transaction_->state());
    const Attempt attempt = run_attempt(ongoing);
    report(attempt, result);
    Next next = Next::kReturn;
    if (attempt.commits()) {
      if (graphs_ && result.attempt == 1) graphs_->compare_with_eager(attempt.loss, attempt.scan);
      commit(attempt, ongoing, result, {});
      if (graphs_ && !ongoing.feed.loss_of) graphs_->other_step_committed();
      for (std::string& note : runner_->take_notes(ongoing.feed)) result.notes.push_back(std::move(note));
      measure_cost();
    } else {
      transaction_->roll_back();
      result.in_flight = attempt.cause == AbortCause::kSpike && review_->defer(attempt, ongoing);
      if (result.in_flight) return result;
      transaction_->count_aborted();
    }
    if (options_.state_hash) result.state_hash_after = amp::state_hash(transaction_->state());
    if (!attempt.commits()) next = remedies_->handle_abort(attempt, ongoing, result);
    if (result.incident) {
      result.incident->drill = faults_->concerns(result.step);
      result.incident->headroom = telemetry_->by_module();
      const bool has_other_kernels = result.incident->remedy.action == RemedyAction::kQuarantinePlan;
      if (graphs_ && (result.rolled_back() || has_other_kernels)) graphs_->clear();
    }
    result.last = next != Next::kRetry;
    conclude(result);
    if (next == Next::kReturn) return with_earlier(std::move(result), attempts);
    if (next == Next::kStop) {
      ranks().end_together();
      const std::string text = fmt::format("step {}: {}; {}", result.step, result.incident->what,
                                           result.incident->remedy.what);
      if (attempt.cause == AbortCause::kBadData) throw DataError(text);
      throw NumericError(text);
    }
  }
}

/// Runs the next attempt at a step. If memory runs out, drops the captured graphs and runs the attempt once more.
Attempt Trainer::run_attempt(OngoingStep& ongoing) {
  Backend& backend = backend_of(transaction_->device());
  const Telemetry::Probes probes = transaction_->warnings().probes(ongoing.plan.step);
  ongoing.plan.loss_scale = transaction_->scaler().scale();
  ongoing.plan.policy = transaction_->policy();
  AttemptPlan plan = ongoing.plan;
  plan.first = transaction_->counters().attempts == 1;
  const bool twice = ongoing.is_suspect || (plan.first && verifies(plan.step));
  const auto run = [&] {
    telemetry_->begin(probes);
    TapeObserver* const observer = options_.telemetry ? telemetry_.get() : nullptr;
    return twice ? run_twice(*runner_, transaction_->device(), plan, ongoing.feed, observer)
                 : runner_->run(plan, ongoing.feed, observer);
  };
  backend.reset_peak();
  cost_.start = std::chrono::steady_clock::now();
  Attempt attempt;
  try {
    attempt = run();
  } catch (const OutOfMemoryError&) {
    if (!graphs_ || !graphs_->holds_graphs()) throw;
    graphs_->clear();
    backend.trim();
    plan.first = false;
    attempt = run();
  }
  complete_telemetry(ranks(), *telemetry_, attempt);
  ongoing.is_suspect = attempt.mismatch.has_value();
  if (twice) transaction_->count_verification(ongoing.is_suspect);
  return attempt;
}

void Trainer::report(const Attempt& attempt, StepResult& result) const {
  // Omits the headroom in steps in which a captured graph cannot measure it (Telemetry::Probes::libraries), also if
  // this step ran eagerly: results must not depend on whether a step was captured.
  const bool known = transaction_->device() == Device::cpu() || !attempt.commits() || result.attempt > 1 ||
                     transaction_->warnings().probes(result.step).libraries;
  if (known) {
    result.forward_headroom = telemetry_->least(Direction::kForward);
    result.backward_headroom = telemetry_->least(Direction::kBackward);
  }
  result.verified = attempt.verified;
  result.loss = attempt.loss;
  result.grad_norm = attempt.grad_norm;
  result.loss_scale = attempt.loss_scale;
  result.lr = attempt.lr;
  if (attempt.phases.size() > 1)
    for (const PhaseAttempt& phase : attempt.phases)
      result.phases.push_back({phase.name, phase.loss, phase.grad_norm,
                               phase.updates.empty() ? attempt.lr : phase.updates.front().input.lr});
  if (known && headroom_every_ > 0 && (result.step == 1 || result.step % headroom_every_ == 0))
    result.headroom = telemetry_->by_module();
}

/// Commits the attempt. `written`: the largest weights and moments, if the device updated them; empty if the host must.
void Trainer::commit(const Attempt& attempt, const OngoingStep& ongoing, StepResult& result,
                     std::span<const BlockExtremes> written) {
  transaction_->commit({.step = result.step,
                        .updates = attempt.phases.back().updates,
                        .loss = attempt.loss,
                        .grad_norm = attempt.grad_norm,
                        .headroom = result.backward_headroom.binades,
                        .origin = ongoing.feed.origins.back(),
                        .telemetry = *telemetry_,
                        .written = written,
                        .notes = result.notes});
  result.committed = true;
  written.empty() ? transaction_->keep_gradients(attempt.phases.back().updates) : transaction_->hide_gradients();
  faults_->after_commit(result.step, transaction_->optimizers());
  const LossScaler& scaler = transaction_->scaler();
  double lr = 0;
  std::vector<std::uint8_t> trained(transaction_->parameters().size());
  for (const PhaseAttempt& phase : attempt.phases)
    for (const OptimizerUpdate& update : phase.updates) {
      lr = std::max(lr, transaction_->optimizers()[update.optimizer]->groups().highest_lr(update.input));
      std::fill_n(trained.begin() + static_cast<std::ptrdiff_t>(transaction_->first_parameter(update.optimizer)),
                  transaction_->optimizers()[update.optimizer]->parameters().size(), 1);
    }
  const CommittedStep step{.step = result.step,
                           .telemetry = *telemetry_,
                           .raised = ongoing.raised ? &*ongoing.raised : nullptr,
                           .parameters = transaction_->parameters(),
                           .lr = lr,
                           .loss = attempt.loss,
                           .grad_norm = attempt.grad_norm,
                           .clip_norm = options_.clip_norm,
                           .largest_gradients = attempt.scan.words,
                           .trained = trained,
                           .loss_scale = attempt.loss_scale,
                           .min_scale = scaler.adjustable() ? scaler.options().floor : attempt.loss_scale,
                           .stochastic = options_.precision.stochastic_rounding,
                           .promotes = options_.on_nan == OnNan::kRemedy};
  result.warnings = transaction_->find_warnings(step);
  for (Warning& warning : runner_->registration().take_warnings()) result.warnings.push_back(std::move(warning));
  result.metrics = metrics_of({.step = step,
                               .result = result,
                               .rates = runner_->rates().of(attempt.phases),
                               .warnings = transaction_->warnings()});
  for (Callback* callback : transaction_->callbacks()) callback->after_commit(result);
}

/// Measures time and memory of the committed attempt. If incidents of this step promoted ops, sets the costs of these
/// remedies, relative to the step before.
void Trainer::measure_cost() {
  const auto now = std::chrono::steady_clock::now();
  const Cost cost{.seconds = std::chrono::duration<double>(now - cost_.start).count(),
                  .bytes = static_cast<double>(backend_of(transaction_->device()).bytes_peak()),
                  .start = now};
  const std::int64_t step = transaction_->counters().steps;
  for (auto one = finished_.rbegin(); one != finished_.rend() && one->step == step; ++one) {
    if (!one->incident || one->incident->remedy.action != RemedyAction::kPromoteOp || cost_.seconds == 0) continue;
    one->incident->remedy.throughput_ratio = cost_.seconds / cost.seconds;
    one->incident->remedy.memory_ratio = cost.bytes / cost_.bytes;
  }
  cost_ = cost;
}

void Trainer::conclude(StepResult& result) {
  if (!result.committed) transaction_->discard_gradients();
  if (graphs_)
    for (std::string& note : graphs_->take_notes()) result.notes.push_back(std::move(note));
  result.skipped_total = transaction_->counters().total.skipped;
  result.verified_total = transaction_->counters().total.verified;
  result.corrupted_total = transaction_->counters().total.corrupted;
  finished_.push_back(result);
  if (finished_.size() > kKeptResults) finished_.pop_front();
}

/// Returns the result of step(): the result `last` of the last attempt at a batch, with the attempts before it in
/// `earlier`. `attempts`: number of attempts at the batch.
StepResult Trainer::with_earlier(StepResult last, std::size_t attempts) const {
  const auto end = std::prev(finished_.end());
  last.earlier.assign(end - static_cast<std::ptrdiff_t>(std::min(attempts, finished_.size()) - 1), end);
  return last;
}

std::vector<StepResult> Trainer::finished() {
  const ExclusiveUse::Call call = transaction_->call("finished");
  const std::deque<StepResult> ended = std::exchange(finished_, {});
  return {ended.begin(), ended.end()};
}

// ---- captured steps -----------------------------------------------------------------------------

/// True if the next step can run as a graph: graphs are on, the batch can be copied, the step is neither a retry nor the
/// run's first one and has one leaf; and no promotion, fault, state hash, adaptive clipping or SpikeReview is pending.
bool Trainer::can_run_as_graph(const StepFeed& feed) const {
  const Transaction::Counters& count = transaction_->counters();
  return graphs_ && !review_->waits() && transaction_->leaves_of(static_cast<int>(feed.origins.size())) == 1 &&
         feed.loss_of && feed.contents && count.attempts == 0 && count.steps > 0 && !faults_->planted() &&
         !options_.state_hash && options_.clip_adaptive == 0 &&
         std::ranges::none_of(transaction_->remediation().promotions(),
                              [](const RemediationPolicy::Promotion& p) { return p.active; });
}

GraphStep Trainer::graph_step(const StepFeed& feed, const Attempt& attempt) const {
  const std::int64_t ahead = attempt.step - transaction_->next_step();
  GraphStep step{.number = attempt.step,
                 .closure = feed.closure,
                 .loss = feed.loss_of,
                 .policy = options_.precision,
                 .loss_scale = attempt.loss_scale,
                 .clip_norm = options_.clip_norm,
                 .loss_bound = options_.on_nan == OnNan::kRemedy ? transaction_->spikes().bound(ahead)
                                                                 : std::numeric_limits<double>::infinity(),
                 .telemetry = options_.telemetry,
                 .probes = transaction_->warnings().probes(attempt.step)};
  for (const OptimizerUpdate& update : runner_->updates_of(attempt)) step.inputs.push_back(update.input);
  for (int i = 0; i < attempt.micro_batches; ++i) step.batch.push_back(feed.contents(i));
  return step;
}

/// Runs the next step as a captured graph. Returns std::nullopt, and changes nothing, if the step must run eagerly, or
/// if the device did not commit it.
std::optional<StepResult> Trainer::run_as_graph(const StepFeed& feed) {
  const std::int64_t number = transaction_->next_step();
  const bool compare = compares_with_eager(number);
  const bool is_eager = transaction_->warnings().reads_tensors(number) || verifies(number);
  if (!can_run_as_graph(feed) || (is_eager && !compare)) return std::nullopt;
  const Attempt attempt = attempt_ahead(*transaction_, feed, 0);
  GraphStep step = graph_step(feed, attempt);
  if (compare) {
    step.compare = true;
    step.probes = {};  // selects the graph without probes, which runs most often
  }
  telemetry_->begin();
  std::optional<DeviceOutcome> outcome;
  try {
    outcome = graphs_->run(step, *telemetry_);
  } catch (const DataError&) {  // the eager step throws it again, and reports it
  }
  if (outcome && outcome->commits()) return complete(feed, attempt, *outcome);
  transaction_->roll_back();
  return std::nullopt;
}

/// Completes a step that the device committed.
StepResult Trainer::complete(const StepFeed& feed, Attempt attempt, const DeviceOutcome& outcome) {
  attempt.loss = outcome.loss;
  attempt.scan = outcome.scan;
  attempt.grad_norm = attempt.scan.norm() * attempt.inverse_scale();
  runner_->set_clip_factor(attempt);
  attempt.proof = {.finite = true, .by_bound = true};
  attempt.phases = {{.loss = attempt.loss, .grad_norm = attempt.grad_norm, .updates = runner_->updates_of(attempt)}};
  StepResult result;
  result.step = attempt.step;
  result.attempt = transaction_->begin_attempt();
  report(attempt, result);
  commit(attempt, ongoing_step(feed), result, outcome.extremes);
  measure_cost();
  result.last = true;
  conclude(result);
  return result;
}

/// Submits the step after those in flight, waiting for the oldest ones if there are too many. Returns std::nullopt if
/// the step cannot be submitted ahead. If an earlier step made the run roll back, returns that step's result. Steps in
/// flight cannot affect this one, because decisions apply kTelemetryDelay steps later.
std::optional<StepResult> Trainer::submit(const StepFeed& feed) {
  if (!graphs_ || options_.ahead == 0 || !feed.copy || !transaction_->callbacks().empty()) return std::nullopt;
  while (in_flight() >= options_.ahead)
    if (std::optional<StepResult> back = collect_oldest()) return back;
  const std::int64_t ahead = in_flight();
  const Attempt attempt = attempt_ahead(*transaction_, feed, ahead);
  const Warnings& warnings = transaction_->warnings();
  if (!can_run_as_graph(feed) || compares_with_eager(attempt.step) || verifies(attempt.step) ||
      warnings.reads_tensors(attempt.step) || warnings.has_due_promotion(attempt.step) ||
      !transaction_->scaler().stays_for(ahead) || !graphs_->submit(graph_step(feed, attempt)))
    return std::nullopt;
  if (ahead == 0) cost_.start = std::chrono::steady_clock::now();
  in_flight_.push_back(std::make_unique<Submitted>(Submitted{feed.copy(), attempt}));
  ++transaction_->published().in_flight;
  transaction_->hide_gradients();  // the step in flight overwrites the gradients of the step before
  StepResult result;
  result.step = attempt.step;
  result.loss_scale = attempt.loss_scale;
  result.lr = attempt.lr;
  result.in_flight = true;
  return result;
}

/// Collects the oldest step in flight. If the device did not commit it, runs it and all later ones again, eagerly: none
/// of them was committed. If one of them makes the run roll back, returns its result and drops the later ones, whose
/// batches the loader delivers again.
std::optional<StepResult> Trainer::collect_oldest() {
  telemetry_->begin();
  const DeviceOutcome outcome = graphs_->collect(*telemetry_);
  if (outcome.commits()) {
    const std::unique_ptr<Submitted> oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    --transaction_->published().in_flight;
    complete(oldest->feed, oldest->attempt, outcome);
    return std::nullopt;
  }
  transaction_->roll_back();
  GraphUse graph_use = GraphUse::kNever;
  transaction_->published().in_flight = 0;
  for (const std::unique_ptr<Submitted>& one : std::exchange(in_flight_, {})) {
    StepResult result = take_batch(one->feed, std::exchange(graph_use, GraphUse::kIfPossible));
    if (result.rolled_back()) return result;
  }
  return std::nullopt;
}

void Trainer::synchronize() {
  const ExclusiveUse::Call call = transaction_->call("synchronize");
  collect_all();
}

std::optional<StepResult> Trainer::collect_all() {
  while (!in_flight_.empty())
    if (std::optional<StepResult> back = collect_oldest()) return back;
  return std::nullopt;
}

bool Trainer::has_committed(std::int64_t steps) {
  const ExclusiveUse::Call call = transaction_->call("has_committed");
  if (transaction_->counters().steps + in_flight() < steps) return false;
  synchronize();
  return transaction_->counters().steps >= steps;
}

// ---- other --------------------------------------------------------------------------------------

MicroBatchRange Trainer::share_of_step() const {
  const auto micro_batches = static_cast<int>(options_.accumulate);
  const int leaves = transaction_->leaves_of(micro_batches);
  const LeafRange own = micro_batches_of(micro_batches, leaves, share_of(leaves, ranks().rank(), ranks().size()));
  return {own.begin, own.end};
}

OngoingStep Trainer::ongoing_step(const StepFeed& feed) const {
  return {feed, {.step = transaction_->next_step(), .policy = transaction_->policy()}};
}

PreflightReport Trainer::run_preflight(const StepFeed& feed) {
  const ExclusiveUse::Call call = transaction_->call("preflight");
  synchronize();
  return preflight_phases(*transaction_, feed);
}

std::optional<MemoryForecast> Trainer::run_forecast(const StepFeed& feed) {
  const ExclusiveUse::Call call = transaction_->call("forecast_memory");
  synchronize();
  // An injected fault strikes in the first run of its step, which must be an attempt and not a run of the forecast.
  if (feed.origins.empty() || faults_->planted() || ranks().shares_process()) return std::nullopt;
  const StepContextScope context(transaction_->seed(), transaction_->next_step());
  return amp::forecast_memory(*runner_, ongoing_step(feed), *transaction_, options_.accumulate);
}

std::shared_ptr<const void> Trainer::evaluation_scope() {
  const ExclusiveUse::Call call = transaction_->call("evaluate");
  synchronize();
  return std::make_shared<EvaluationScope>(*transaction_);
}

Incident Trainer::investigate_evaluation(const std::string& what, const std::function<void()>& again) {
  const ExclusiveUse::Call call = transaction_->call("investigate_evaluation");
  FirstBadSearch search(0);
  {
    const std::shared_ptr<const void> scope = evaluation_scope();
    const ObserverScope watched(search);
    again();
  }
  return diagnose_evaluation(steps(), what, search, transaction_->model(), ema() != nullptr);
}

ReproReplay Trainer::run_replay(const StateDict& bundle,
                                const std::function<StepFeed(const std::vector<StateDict>& batches)>& make_feed) {
  const ExclusiveUse::Call call = transaction_->call("replay");
  check_settings(*transaction_, bundle);
  load_state(bundle);
  const StepFeed feed = make_feed(micro_batches_of(bundle));
  return replay_attempt(*transaction_, *runner_, *remedies_, bundle, ongoing_step(feed));
}

// ---- state --------------------------------------------------------------------------------------

void Trainer::attach_data(std::function<StateDict()> state, std::function<void(const StateDict&)> load_state,
                          std::function<void(const io::BatchOrigin&)> commit,
                          std::function<void(std::int64_t)> quarantine) {
  const ExclusiveUse::Call call = transaction_->call("attach");
  transaction_->attach({std::move(state), std::move(load_state), std::move(commit), std::move(quarantine)});
}

StateDict Trainer::state() {
  const ExclusiveUse::Call call = transaction_->call("state");
  synchronize();
  return cloned(transaction_->state());
}

std::string Trainer::state_hash() {
  const ExclusiveUse::Call call = transaction_->call("state_hash");
  synchronize();
  return amp::state_hash(transaction_->state());
}

void Trainer::load_state(const StateDict& state) {
  const ExclusiveUse::Call call = transaction_->call("load_state");
  synchronize();
  transaction_->load(state);
  review_->forget();
  if (graphs_) graphs_->clear();
}

void Trainer::add_callback(Callback& callback) {
  const ExclusiveUse::Call call = transaction_->call("add_callback");
  synchronize();
  transaction_->add_callback(callback);
}

void Trainer::observe(double loss) {
  const ExclusiveUse::Call call = transaction_->call("observe");
  synchronize();
  transaction_->observe(loss);
}

void Trainer::promote(const std::string& target) {
  const ExclusiveUse::Call call = transaction_->call("promote");
  synchronize();
  transaction_->promote(target);
}

void Trainer::set_telemetry(bool on) {
  const ExclusiveUse::Call call = transaction_->call("set_telemetry");
  synchronize();
  options_.telemetry = on;
}

void Trainer::set_verify_every(std::int64_t steps) {
  const ExclusiveUse::Call call = transaction_->call("set_verify_every");
  synchronize();
  TrainerOptions changed = options_;
  changed.verify_every = steps;
  options_.verify_every = checked(std::move(changed)).verify_every;
}

void Trainer::set_repro_sink(ReproSink sink) {
  transaction_->used_by("set_repro_sink"), remedies_->set_repro_sink(std::move(sink));
}
void Trainer::set_recovery(FindRecoveryPoint find) {
  transaction_->used_by("set_recovery"), remedies_->set_recovery(std::move(find));
}
void Trainer::keep_headroom_every(std::int64_t steps) {
  transaction_->used_by("keep_headroom_every"), headroom_every_ = steps;
}
void Trainer::set_pauses(std::function<bool(std::int64_t step)> pauses_after) {
  transaction_->used_by("set_pauses"), pauses_after_ = std::move(pauses_after);
}
ExclusiveUse& Trainer::use() const { return transaction_->use(); }
Device Trainer::device() const { return transaction_->device(); }
std::int64_t Trainer::in_flight() const { return transaction_->published().in_flight; }
std::int64_t Trainer::steps() const { return transaction_->published().steps; }
std::int64_t Trainer::skipped() const { return transaction_->published().skipped; }
const RemediationPolicy& Trainer::remediation() const { return transaction_->used_by("remediation")->remediation(); }
const LossScaler& Trainer::scaler() const { return transaction_->used_by("scaler")->scaler(); }
const optim::Schedule& Trainer::schedule() const { return transaction_->used_by("schedule")->schedule(); }
optim::Ema* Trainer::ema() { return transaction_->used_by("ema")->averages().front(); }
const std::vector<std::string>& Trainer::changes() const { return transaction_->used_by("changes")->changes(); }
const Telemetry& Trainer::telemetry() const { return transaction_->used_by("telemetry"), *telemetry_; }
FaultInjection& Trainer::faults() { return transaction_->used_by("faults"), *faults_; }
double Trainer::next_lr() const {
  const Transaction::Used used = transaction_->used_by("next_lr");
  return used->lr_of(used->next_step());
}

}  // namespace binade::amp
