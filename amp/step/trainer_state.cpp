// The functions of a Trainer between steps: evaluation, forecasts, replays, and the state of the run.

#include "binade/amp/incident/diagnosis.h"
#include "binade/amp/incident/fault_injection.h"
#include "binade/amp/state_hash.h"
#include "binade/amp/step/callback.h"
#include "binade/amp/step/evaluation_scope.h"
#include "binade/amp/step/memory_forecast.h"
#include "binade/amp/step/phase_preflight.h"
#include "binade/amp/step/remedies.h"
#include "binade/amp/step/repro_bundle.h"
#include "binade/amp/step/spike_review.h"
#include "binade/amp/step/step_graphs.h"
#include "binade/amp/step/trainer.h"
#include "binade/amp/step/transaction.h"
#include "binade/core/state_copy.h"

namespace binade::amp {

LeafRange Trainer::share_of_step() const {
  const auto micro_batches = static_cast<int>(options_.accumulate);
  const int leaves = transaction_->leaves_of(micro_batches);
  return micro_batches_of(micro_batches, leaves, share_of(leaves, ranks().rank(), ranks().size()));
}

OngoingStep Trainer::ongoing_step(const StepFeed& feed) const {
  return {feed, {.step = transaction_->next_step(), .policy = transaction_->policy()}};
}

PreflightReport Trainer::run_preflight(const StepFeed& feed) {
  synchronize();
  return preflight_phases(*transaction_, feed);
}

std::optional<MemoryForecast> Trainer::run_forecast(const StepFeed& feed) {
  synchronize();
  // An injected fault strikes in the first run of its step, which must be an attempt and not a run of the forecast.
  if (feed.origins.empty() || faults_->planted() || !ranks().alone()) return std::nullopt;
  const StepContextScope context(transaction_->seed(), transaction_->next_step());
  return amp::forecast_memory(*runner_, ongoing_step(feed), transaction_->device(), options_.accumulate > 1);
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
  return diagnose_evaluation(steps(), what, search, transaction_->model(), ema() != nullptr);
}

std::vector<StateDict> Trainer::begin_replay(const StateDict& bundle) {
  check_repro_bundle(bundle);
  const std::vector<std::string> changes = transaction_->changes_since(bundle);
  check<CheckpointError>(changes.empty(),
                         "replay: the run that wrote the repro bundle had other settings: {}; use those",
                         changes.empty() ? "" : changes.front());
  load_state(bundle);
  return micro_batches_of(bundle);
}

ReproReplay Trainer::run_replay(const StateDict& bundle, const StepFeed& feed) {
  const StepContextScope context(transaction_->seed(), transaction_->next_step());
  for (Callback* callback : transaction_->callbacks()) callback->before_step(transaction_->next_step());
  OngoingStep ongoing = ongoing_step(feed);
  read_plan(bundle, ongoing);
  const Attempt attempt = runner_->rehearse(ongoing.plan, feed);
  ongoing.plan.first = false;
  ReproReplay replay{.same_bits = same_bits(attempt, bundle)};
  replay.incident = {.step = attempt.step,
                     .attempt = attempt_number_of(bundle),
                     .what = describe(attempt, transaction_->parameters())};
  if (!attempt.commits()) replay.incident.diagnosis = remedies_->investigate(attempt, ongoing);
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
  review_->forget();
  if (graphs_) graphs_->clear();
}

void Trainer::add_callback(Callback& callback) {
  synchronize();
  transaction_->add_callback(callback);
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

void Trainer::set_verify_every(std::int64_t steps) {
  synchronize();
  TrainerOptions changed = options_;
  changed.verify_every = steps;
  options_ = checked(std::move(changed));
}

void Trainer::set_repro_sink(ReproSink sink) { remedies_->set_repro_sink(std::move(sink)); }
void Trainer::set_recovery(FindRecoveryPoint find) { remedies_->set_recovery(std::move(find)); }

std::int64_t Trainer::steps() const { return transaction_->counters().steps; }
std::int64_t Trainer::skipped() const { return transaction_->counters().total.skipped; }
double Trainer::next_lr() const { return transaction_->lr_of(transaction_->next_step()); }
Device Trainer::device() const { return transaction_->device(); }
const RemediationPolicy& Trainer::remediation() const { return transaction_->remediation(); }
const LossScaler& Trainer::scaler() const { return transaction_->scaler(); }
const optim::Schedule& Trainer::schedule() const { return transaction_->schedule(); }
optim::Ema* Trainer::ema() { return transaction_->averages().front(); }
const std::vector<std::string>& Trainer::changes() const { return transaction_->changes(); }

}  // namespace binade::amp
