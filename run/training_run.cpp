#include "binade/run/training_run.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <iterator>
#include <thread>

#include "binade/amp/incident/fault_injection.h"
#include "binade/amp/loss_scaler.h"
#include "binade/amp/state_hash.h"
#include "binade/amp/step/memory_forecast.h"
#include "binade/amp/text.h"
#include "binade/amp/warnings/forecast.h"
#include "binade/core/communicator.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/state_counts.h"
#include "binade/core/version.h"
#include "binade/io/checkpoint/store.h"
#include "binade/io/files/run_folder.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/signals.h"
#include "binade/run/fault_log.h"
#include "binade/run/faulty_disk.h"
#include "binade/run/library_plans.h"
#include "binade/run/rank_run.h"
#include "binade/run/rank_watch.h"
#include "binade/run/run_records.h"
#include "binade/run/save_times.h"

namespace binade::amp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kEnvironment = "env/made_by";
constexpr std::int64_t kHeadroomLines = 200;              // lines of headroom.jsonl in a run without incidents
constexpr const char* kEvaluated = "progress/evaluated";  // the step of the last evaluation, -1 before the first
constexpr double kPatienceAfterSignal = 5;                // seconds for retries of the last save: SIGKILL may follow

/// Returns a text about everything besides the state on which results may depend: the build and the kernel level.
std::string environment() { return fmt::format("{}, kernels {}", build_id(), cpu::level().isa); }

/// Returns the number of steps between lines of headroom.jsonl. A long interval is a multiple of the interval at which
/// a GPU measures headroom.
std::int64_t headroom_every(std::int64_t steps) {
  constexpr std::int64_t kMeasured = Forecast::Options{}.every;
  const std::int64_t every = std::max<std::int64_t>(1, steps / kHeadroomLines);
  return every < kMeasured ? every : every / kMeasured * kMeasured;
}

double steady_seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

bool due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

/// Throws OutOfMemoryError if a step does not fit. Returns the bytes that are available to this process.
double check_forecast(const MemoryForecast& forecast, const RunOptions& options, Device device) {
  const double available = options.memory_limit > 0 ? options.memory_limit : share_of_memory(device);
  check_fits(forecast, available, device);
  return available;
}

/// Returns the content of config.json for a program that does not set RunOptions::config.
std::string describe(const Trainer& trainer, const RunOptions& options) {
  return io::JsonObject()
             .add("steps", options.steps)
             .add("precision", trainer.policy().to_string())
             .add("accumulate", trainer.options().accumulate)
             .add("build", build_id())
             .add("revision", git_revision())
             .text() +
         "\n";
}

}  // namespace

/// An open run: its folder, checkpoints and records.
class TrainingRun::Journal {
 public:
  /// `stop_reason`: what TrainingRun::stop() sets.
  Journal(const RunOptions& options, Trainer& trainer, io::RunFolder folder,
          const std::optional<std::string>& stop_reason)
      : options_(options),
        trainer_(trainer),
        stop_reason_(stop_reason),
        folder_(std::move(folder)),
        records_(folder_, options, trainer.scaler().options().mode != LossScaleMode::kOff),
        disk_(*options.disk),
        leader_(trainer.ranks()),
        store_(folder_.checkpoints(), {.keep = options.keep, .ops = &disk_}) {
    const FindRecoveryPoint find = [this](std::int64_t newest, std::int64_t after) -> std::optional<RecoveryPoint> {
      std::optional<io::LoadedCheckpoint> found = store_.load_for_rollback(newest, after);
      if (!found) return std::nullopt;
      return RecoveryPoint{found->step, found->file, std::move(found->state)};
    };
    trainer_.set_recovery(recovery_from_rank_0(trainer_.ranks(), find));
    trainer_.set_pauses(
        pauses_from_rank_0(trainer_.ranks(), [this](std::int64_t step) { return needs_state_after(step); }));
    trainer_.set_repro_sink([this](std::int64_t step, std::int64_t attempt, StateDict bundle) {
      records_.repro_bundle(step, attempt, std::move(bundle));
    });
  }

  ~Journal() {
    if (opened_ && !end_) log_end_of_loop();
    trainer_.set_pauses(nullptr);
    trainer_.set_repro_sink(nullptr);
    trainer_.set_recovery(nullptr);
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void open() {
    started_at_ = trainer_.steps();
    if (!loaded_) leader_.begun();
    if (!trainer_.ranks().alone()) watch_.emplace(trainer_.ranks(), folder_.path());
    if (!resumed_) records_.log_event("begun", started_at_, fmt::format("begun, to make {} steps", options_.steps));
    if (resumed_)
      for (const std::string& change : options_.changes.empty() ? trainer_.changes() : options_.changes)
        records_.event("changed", started_at_, fmt::format("changed: {}", change));
    open_fault_log();
    folder_.write_config(options_.config.empty() ? describe(trainer_, options_) : options_.config);
    records_.begin(started_at_);
    trainer_.keep_headroom_every(headroom_every(options_.steps));
    save_times_.emplace(SaveTimes::Options{.every_steps = options_.checkpoint_every,
                                           .seconds = 60 * options_.checkpoint_minutes,
                                           .saved_before = saved_step_ >= 0},
                        steady_seconds());
    opened_ = true;
    signals_.emplace();
    if (started_at_ > 0 && due(started_at_, options_.eval_every))
      evaluate(started_at_);  // repeats an evaluation that a signal interrupted
    last_step_end_ = Clock::now();
  }

  void load() {
    io::LoadedCheckpoint checkpoint = store_.load_newest();
    if (options_.check_constants) options_.check_constants(checkpoint.state);
    trainer_.load_state(checkpoint.state);
    leader_.loaded(checkpoint.state);
    loaded_ = true;
    compare_environment(checkpoint.state);
    if (const std::string problem = plans_.restore(checkpoint.state); !problem.empty())
      records_.event("environment", trainer_.steps(), problem);
    records_.truncate_metrics(read_count(checkpoint.state, "progress/metrics_bytes"), trainer_.steps());
    evaluated_step_ = read_count(checkpoint.state, kEvaluated, -1);
    saved_step_ = trainer_.steps();
    resumed_ = true;
    records_.event("resumed", trainer_.steps(),
                   fmt::format("resumed from {} at step {}{}", checkpoint.file, trainer_.steps(),
                               records_.ended_well() ? "" : "; the process before this one ended without a word"));
  }

  /// Reads and opens the log of injected faults.
  void open_fault_log() {
    FaultInjection& faults = trainer_.faults();
    if (!faults.planted()) return;
    fault_log_.emplace(folder_.files(), "drills.jsonl", faults);
    for (const Fault& fault : faults.faults()) {
      records_.say(fmt::format("fire drill: {}", fault.spec));
      if (!resumed_) records_.log_event("drill", fault.step, fmt::format("planted: {}", fault.spec));
    }
  }

  bool holds_checkpoints() const { return folder_.holds_checkpoints(); }

  void begin_again() {
    records_.event("resumed", 0, "no checkpoint was committed before the run was stopped; it begins again");
    resumed_ = true;
    records_.truncate_metrics(0, 0);
  }

  bool goes_on() {
    if (end_) return false;
    folder_.check_not_moved();
    std::optional<StopRequest> stop = leader_.stop_requested();
    if (stop || stop_reason_) record([&] { trainer_.synchronize(); });
    const bool all_made = trainer_.steps() >= options_.steps, ends = all_made || (stop_reason_ && !mid_step_);
    if (ends && finish()) {
      end_ = all_made ? RunEnd::kDone : RunEnd::kStopped;
    } else if ((stop || (ends && (stop = leader_.stop_requested()))) && !mid_step_) {  // signal during finish()
      if (saved_step_ != trainer_.steps())
        save_now({.patience = std::min(options_.save_patience, kPatienceAfterSignal), .supersedes = true});
      records_.finish();
      records_.report_incomplete_logs(trainer_.steps());
      records_.event("stopped", trainer_.steps(),
                     fmt::format("stopped by {} after step {}; the state is committed", stop->text(),
                                 trainer_.steps()));
      end_ = RunEnd::kPreempted;
    }
    leader_.goes_on(end_);
    if (end_) signals_.reset();
    return !end_;
  }

  /// Calls `step` and records the attempts that ended. Returns the result of the last finished batch.
  StepResult record(const std::function<void()>& step) {
    const bool save_by_clock = save_times_->due_by_clock(steady_seconds()) && !store_.saving();
    try {
      step();
      if (save_by_clock || needs_state_after(trainer_.steps() + trainer_.in_flight())) trainer_.synchronize();
    } catch (const NumericError&) {
      save_before_error(record_attempts());
      throw;
    }
    const std::vector<StepResult> ended = record_attempts();
    report_library_notes();
    const auto committed = std::ranges::count(ended, true, &StepResult::committed);
    const double seconds = std::chrono::duration<double>(Clock::now() - last_step_end_).count();
    for (const StepResult& last : ended) {
      mid_step_ = !last.committed && !last.rolled_back();
      if (last.committed)
        after_commit(last, seconds / static_cast<double>(committed));
      else if (last.rolled_back())
        continue_after_rollback();
    }
    if (ended.empty()) return {};
    if (save_by_clock && ended.back().committed && trainer_.steps() < options_.steps) start_save(SaveTrigger::kClock);
    last_step_end_ = Clock::now();
    return ended.back();
  }

  void report(const MemoryForecast& forecast) {
    const double available = check_forecast(forecast, options_, trainer_.device());
    records_.event("memory", trainer_.steps(), "memory: " + to_string(forecast, available));
  }

  RunEnd end() const { return end_.value_or(RunEnd::kLeft); }

 private:
  /// True if the state after this step is needed before the next step: for an evaluation, a save or the end.
  bool needs_state_after(std::int64_t step) const {
    return due(step, options_.eval_every) || save_times_->due_at_step(step) || step >= options_.steps;
  }

  void after_commit(const StepResult& last, double seconds) {
    saving_.ended = collect_saves();
    records_.timing(last, seconds, std::exchange(saving_, {}));
    if (due(last.step, options_.eval_every)) evaluate(last.step);
    if (last.step < options_.steps) {
      if (has_best_score(last.step))
        start_save(SaveTrigger::kBest);
      else if (save_times_->due_at_step(last.step))
        start_save(SaveTrigger::kStep);
    }
    saving_.concurrent = store_.saving();
  }

  enum class SaveTrigger { kStep, kClock, kBest };  // the step count, the clock, or the best score so far

  /// True if this step was evaluated, and no checkpoint has a score that is as good.
  bool has_best_score(std::int64_t step) {
    if (evaluated_step_ != step || !score_) return false;
    wait_for_save();
    const std::vector<io::ManifestEntry> saved = store_.entries();
    return std::ranges::none_of(saved, [&](const io::ManifestEntry& entry) {
      return entry.score && entry.score->higher_is_better == score_->higher_is_better &&
             !score_->better_than(*entry.score);
    });
  }

  /// Starts a save. Skips it if another save is in flight, so that a slow disk makes checkpoints rarer, not steps
  /// slower. But a save by step count waits for a save by the clock, so that timing does not decide which steps have
  /// checkpoints.
  void start_save(SaveTrigger trigger) {
    const Clock::time_point begun = Clock::now();
    if (trigger == SaveTrigger::kStep && saving_beside_plan_) wait_for_save();
    if (store_.saving()) return;
    leader_.compare_states(trainer_);
    saving_beside_plan_ = trigger != SaveTrigger::kStep;
    store_.start_save(save_request());
    save_times_->save_started(steady_seconds());
    saving_.stall_seconds += std::chrono::duration<double>(Clock::now() - begun).count();
    saving_.concurrent = true;
  }

  /// Waits for the save in flight.
  void wait_for_save() {
    trainer_.ranks().begins("the save of an earlier checkpoint", Wait::kWhileAlive);
    store_.wait();
  }

  /// Abandons the checkpoints after the one that the run rolled back to: a resume must not use them.
  void continue_after_rollback() {
    store_.abandon_after(trainer_.steps());
    evaluated_step_ = std::min(evaluated_step_, trainer_.steps());
    try {
      save_now({});
    } catch (const StorageError& error) {  // no loss: the checkpoint that the run rolled back to still exists
      if (options_.save_failure == SaveFailure::kStop) throw;
      save_times_->save_failed(steady_seconds());
      records_.event("checkpoint", trainer_.steps(), error.what());
    }
  }

  /// Saves the state before a step that ends the run, unless the state itself is to blame.
  void save_before_error(const std::vector<StepResult>& ended) noexcept {
    wait_for_save();  // of an earlier step
    try {
      const Incident* incident = ended.empty() || !ended.back().incident ? nullptr : &*ended.back().incident;
      const bool to_blame = incident != nullptr && (incident->diagnosis.cause == CauseClass::kCorruptedState ||
                                                    incident->diagnosis.earlier_weights);
      if (to_blame || saved_step_ == trainer_.steps()) return;
      save_now({.patience = options_.save_patience, .compares = false});  // the other ranks throw this error too
      records_.event("checkpoint", trainer_.steps(),
                     fmt::format("the state after step {} is committed; a resume goes on from there",
                                 trainer_.steps()));
    } catch (const std::exception& error) {  // the error of the step, which follows, is more important
      records_.say(error.what());
    }
  }

  /// Records the attempts that ended. Returns, for each finished batch, its last attempt with the others in `earlier`.
  std::vector<StepResult> record_attempts() {
    std::vector<StepResult> attempts = trainer_.finished(), ended;
    for (std::span<StepResult> rest = attempts; !rest.empty();) {
      const auto last = std::ranges::find(rest, true, &StepResult::last);
      const auto count = static_cast<std::size_t>(last - rest.begin()) + (last != rest.end() ? 1 : 0);
      const std::span<StepResult> one = rest.first(count);
      rest = rest.subspan(count);
      records_.attempts(one);
      const bool trouble = std::ranges::any_of(one, [](const StepResult& a) { return a.incident.has_value(); });
      trouble ? store_.step_had_trouble(one.back().step) : store_.step_was_clean(one.back().step);
      if (!one.back().last) continue;
      ended.push_back(std::move(one.back()));
      ended.back().earlier.assign(std::move_iterator(one.begin()), std::move_iterator(std::prev(one.end())));
    }
    return ended;
  }

  /// Evaluates the model unless this was done at this step. Returns false if a signal prevented the evaluation.
  bool evaluate(std::int64_t step) {
    if (!options_.evaluate || step == evaluated_step_) return true;
    Evaluation evaluation;
    try {
      if (io::StopSignals::stop_requested()) return false;
      trainer_.ranks().begins(fmt::format("the evaluation after step {}", step), Wait::kWhileAlive);
      evaluation = trainer_.evaluate(options_.evaluate);
    } catch (const EvaluationStopped&) {
      return false;
    }
    records_.evaluation(step, evaluation);
    evaluated_step_ = step;
    saved_step_ = -1;
    score_.reset();
    bool has_score = options_.score.empty();
    std::vector<std::string> names;
    for (const auto& [name, value] : evaluation.numbers) {
      names.push_back(name);
      has_score = has_score || name == options_.score;
      if (name == options_.score && std::isfinite(value)) score_ = io::Score{value, options_.higher_is_better};
    }
    check<ArgumentError>(has_score, "run: the score '{}' is no number of the evaluation; it returned {}",
                         options_.score, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    const auto bad = std::ranges::find_if(evaluation.numbers, [](const auto& n) { return !std::isfinite(n.second); });
    if (bad != evaluation.numbers.end()) report_bad_evaluation(*bad);
    if (score_) {
      const double loss = score_->higher_is_better ? -score_->value : score_->value;
      leader_.observed(loss);
      trainer_.observe(loss);
    }
    return true;
  }

  void report_bad_evaluation(const std::pair<std::string, double>& number) {
    const std::string what = fmt::format("{} of the evaluation is {}", number.first, number.second);
    try {
      records_.report(trainer_.investigate_evaluation(what, [&] { options_.evaluate(); }));
    } catch (const EvaluationStopped&) {  // a signal stopped the replay: the run ends without a diagnosis
      records_.say(what);
    }
  }

  io::SaveRequest save_request() {
    const std::int64_t step = trainer_.steps();
    StateDict state = trainer_.state();
    for (const auto& [name, value] : options_.constants.values()) state.put(name, value);
    state.put(kEnvironment, environment());
    state.put(kEvaluated, evaluated_step_);
    state.put("progress/metrics_bytes", records_.metrics_bytes());
    const std::string plans = LibraryPlans::put(state);
    io::SaveRequest result{.step = step, .state = std::move(state)};
    result.hash = state_hash;
    if (evaluated_step_ == step) result.score = score_;
    // The logs must be on the disk before the checkpoint. The thread that writes checkpoints waits for this, so that
    // the step does not.
    result.before = [this, plans, full = trainer_.faults().fills_disk(step)] {
      records_.sync();
      records_.log_later("plans.txt", [&] { plans_.write(folder_, plans); });
      disk_.set_full(full);
    };
    return result;
  }

  void compare_environment(const StateDict& state) {
    const std::string then = state.contains(kEnvironment) ? state.text(kEnvironment) : "an unknown build";
    if (then != environment())
      records_.event(
          "environment", trainer_.steps(),
          fmt::format("the checkpoint was made by {}, this is {}: bits may differ from those of an uninterrupted run",
                      then, environment()));
  }

  void report_library_notes() {
    for (const std::string& note : plans_.unreported_notes()) records_.event("library", trainer_.steps(), note);
  }

  struct SaveNowOptions {
    double patience = 0;      ///< seconds during which a failed save is retried
    bool supersedes = false;  ///< may replace a checkpoint of the same step that this process wrote
    bool compares = true;     ///< compares the states of all ranks before
  };

  void save_now(const SaveNowOptions& how) {
    wait_for_save();
    collect_saves();
    if (how.compares) leader_.compare_states(trainer_);
    trainer_.ranks().begins(fmt::format("the checkpoint of step {}", trainer_.steps()), Wait::kWhileAlive);
    const double end = steady_seconds() + (options_.save_failure == SaveFailure::kStop ? 0 : how.patience);
    for (double pause = 0.25;; pause *= 2) {
      save_times_->save_started(steady_seconds());
      io::SaveRequest now = save_request();
      now.supersedes = how.supersedes;
      try {
        store_.save(std::move(now));
        break;
      } catch (const StorageError& error) {
        if (const double left = end - steady_seconds(); left <= 0 || !wait(std::min(pause, left))) throw;
        records_.event("checkpoint", trainer_.steps(), fmt::format("{}; it is tried again", error.what()));
      }
    }
    save_times_->save_committed();
    saved_step_ = trainer_.steps();
  }

  /// Waits. Returns false, at once, if a stop signal arrives.
  static bool wait(double seconds) {
    const bool before = io::StopSignals::stop_requested();
    for (const double end = steady_seconds() + seconds; steady_seconds() < end;) {
      if (io::StopSignals::stop_requested() != before) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  /// Saves, evaluates, and saves again with the evaluation, to complete the run. Returns false if a signal prevented
  /// the evaluation. Saves first because the evaluation may fail.
  bool finish() {
    if (saved_step_ != trainer_.steps()) save_now({.patience = options_.save_patience});
    if (!evaluate(trainer_.steps())) return false;
    if (saved_step_ != trainer_.steps()) save_now({.patience = options_.save_patience, .supersedes = true});
    records_.finish();
    records_.report_incomplete_logs(trainer_.steps());
    records_.log_event("finished", trainer_.steps(),
                       fmt::format("finished after step {}{}", trainer_.steps(),
                                   stop_reason_ ? fmt::format(", stopped by the program: {}", *stop_reason_) : ""));
    return true;
  }

  /// Records that the training loop ended before the run: by an error, which is reported elsewhere, or because the
  /// program left it.
  void log_end_of_loop() noexcept {
    try {
      const bool by_error = std::uncaught_exceptions() > exceptions_before_;
      records_.log_event("left", trainer_.steps(),
                         fmt::format("{} after step {}",
                                     by_error ? "ended by an error" : "left by the program, before its end,",
                                     trainer_.steps()));
    } catch (const std::exception&) {  // ignored: probably the disk is full, which was reported before
    }
  }

  std::vector<io::SaveOutcome> collect_saves() {
    std::vector<io::SaveOutcome> ended = store_.finished();
    for (const io::SaveOutcome& outcome : ended) {
      if (outcome.committed) {
        save_times_->save_committed();
        continue;
      }
      save_times_->save_failed(steady_seconds());
      records_.event("checkpoint", outcome.step,
                     fmt::format("checkpoint of step {} was not committed: {}", outcome.step, outcome.problem));
      if (options_.save_failure == SaveFailure::kStop) std::rethrow_exception(outcome.error);
    }
    return ended;
  }

  const RunOptions& options_;
  Trainer& trainer_;
  const std::optional<std::string>& stop_reason_;
  const int exceptions_before_ = std::uncaught_exceptions();
  std::optional<io::StopSignals> signals_;  // outlives all members that write files, because SIGXFSZ must stay ignored
  io::RunFolder folder_;
  RunRecords records_;  // outlives the store, whose writer calls into it
  LibraryPlans plans_;  // outlives the store, whose writer calls into it
  FaultyDisk disk_;
  RunLeader leader_;
  io::CheckpointStore store_;
  std::optional<FaultLog> fault_log_;    // drills.jsonl
  std::optional<RankWatch> watch_;       // over several ranks
  Clock::time_point last_step_end_;      // end of the last step
  RunRecords::Saving saving_;            // checkpoint activity since the last step
  std::optional<SaveTimes> save_times_;  // from open() on
  bool saving_beside_plan_ =
      false;                     // true if the clock or a best score caused the save in flight, or else the last save
  std::int64_t started_at_ = 0;  // number of committed steps when the run was begun or resumed
  std::int64_t evaluated_step_ = -1;  // step of the last evaluation
  std::int64_t saved_step_ = -1;      // step that save_now() saved or load() loaded; -1 after an evaluation
  std::optional<io::Score> score_;    // score of the evaluation at step evaluated_step_
  std::optional<RunEnd> end_;
  bool opened_ = false, resumed_ = false, loaded_ = false;
  bool mid_step_ = false;  // a batch was skipped, and its step has not been committed yet
};

TrainingRun::TrainingRun(Trainer& trainer, RunOptions options)
    : trainer_(trainer), options_(std::move(options)), memory_forecast_due_(options_.forecast_memory) {
  check<ArgumentError>(!options_.folder.empty() && options_.steps >= 1,
                       "training run: wanted a folder and steps >= 1, got '{}' and {}", options_.folder,
                       options_.steps);
}

TrainingRun::~TrainingRun() = default;

bool TrainingRun::follows(bool& loaded) {
  check<ArgumentError>(!journal_ && !follower_, "training run: it is open already; begin or resume once");
  if (trainer_.ranks().rank() == 0) return false;
  follower_ = std::make_unique<RunFollower>(trainer_, options_.folder);
  loaded = follower_->open();
  return true;
}

void TrainingRun::begin() {
  const Claim claim(*this, "begin");
  if (bool loaded = false; follows(loaded)) return;
  auto journal = std::make_unique<Journal>(options_, trainer_, io::RunFolder::create(options_.folder, *options_.disk),
                                           stop_reason_);
  journal->open();
  journal_ = std::move(journal);
}

void TrainingRun::resume() {
  const Claim claim(*this, "resume");
  if (bool loaded = false; follows(loaded)) return;
  auto journal = std::make_unique<Journal>(options_, trainer_, io::RunFolder::resume(options_.folder, *options_.disk),
                                           stop_reason_);
  journal->load();
  journal->open();
  journal_ = std::move(journal);
}

bool TrainingRun::resume_if_possible() {
  const Claim claim(*this, "resume_if_possible");
  if (bool loaded = false; follows(loaded)) return loaded;
  if (!io::RunFolder::holds_a_run(options_.folder, *options_.disk)) {
    begin();
    return false;
  }
  auto journal = std::make_unique<Journal>(options_, trainer_, io::RunFolder::resume(options_.folder, *options_.disk),
                                           stop_reason_);
  const bool loads = journal->holds_checkpoints();
  loads ? journal->load() : journal->begin_again();
  journal->open();
  journal_ = std::move(journal);
  return loads;
}

bool TrainingRun::goes_on() {
  const Claim claim(*this, "goes_on");
  if (!journal_ && !follower_) begin();
  return follower_ ? follower_->goes_on() : journal_->goes_on();
}

StepResult TrainingRun::record(const std::function<void()>& step) {
  if (!journal_ && !follower_) begin();
  return follower_ ? follower_->record(step) : journal_->record(step);
}

void TrainingRun::report(const std::optional<MemoryForecast>& forecast) {
  if (!journal_ && !follower_) begin();
  if (!forecast) return;
  if (journal_)
    journal_->report(*forecast);
  else
    check_forecast(*forecast, options_, trainer_.device());
}

RunEnd TrainingRun::end() const {
  const ExclusiveUse::Call call(use_, "end");
  if (follower_) return follower_->end();
  return journal_ ? journal_->end() : RunEnd::kLeft;
}

}  // namespace binade::amp
