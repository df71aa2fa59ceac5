#include "amp/training_run.h"

#include <chrono>
#include <cstdio>
#include <optional>

#include "amp/run_records.h"
#include "amp/state_hash.h"
#include "core/error.h"
#include "io/checkpoint_store.h"
#include "io/run_folder.h"
#include "io/signals.h"

namespace binade::amp {
namespace {

using Clock = std::chrono::steady_clock;

bool due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

/// One run from its opening to its end.
class Loop {
 public:
  Loop(const RunPlan& plan, Trainer& trainer, const RunTask& task)
      : plan_(plan),
        trainer_(trainer),
        task_(task),
        folder_(plan.resume ? io::RunFolder::resume(plan.folder) : io::RunFolder::create(plan.folder)),
        store_(folder_.checkpoints(), {.keep = plan.keep}),
        records_(folder_, plan) {
    if (plan.resume) load();
    folder_.write_config(plan.config);
    records_.begin(started_at_);
  }

  RunEnd run() {
    const io::StopSignals signals;
    while (trainer_.steps() < plan_.steps) {
      step();
      collect_saves();
      if (io::StopSignals::stop_requested() && trainer_.steps() < plan_.steps) {
        save_now();
        records_.say(fmt::format("stopped by signal {} after step {}; the state is committed",
                                 io::StopSignals::signal_received(), trainer_.steps()));
        return RunEnd::kPreempted;
      }
    }
    const std::int64_t last = trainer_.steps();
    if (last != evaluated_ && last != started_at_) evaluate(last);
    if (last != started_at_) save_now();
    records_.finish();
    return RunEnd::kDone;
  }

 private:
  void load() {
    io::LoadedCheckpoint checkpoint = store_.load_newest();
    if (task_.check_constants) task_.check_constants(checkpoint.state);
    trainer_.load_state(checkpoint.state);
    records_.cut_back_to(checkpoint.state.integer("progress/metrics_bytes"));
    started_at_ = trainer_.steps();
    records_.say(fmt::format("resumed from {} at step {}", checkpoint.file, started_at_));
  }

  void step() {
    const Clock::time_point before = Clock::now();
    try {
      task_.update();
    } catch (const NumericError&) {
      record_attempts();
      store_.wait();  // the save in flight is of an earlier, healthy step
      throw;
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - before).count();
    const StepResult last = record_attempts();
    const std::int64_t step = trainer_.steps();
    records_.timing(last, seconds);
    store_.step_was_clean(step);
    if (due(step, plan_.eval_every)) evaluate(step);
    // While a save is in flight this one is left out: a slow disk makes checkpoints rarer, never steps slower.
    if (due(step, plan_.checkpoint_every) && step < plan_.steps && !store_.saving()) store_.start_save(request());
  }

  StepResult record_attempts() {
    StepResult last;
    for (StepResult& attempt : trainer_.finished()) {
      records_.attempt(attempt);
      last = std::move(attempt);
    }
    return last;
  }

  void evaluate(std::int64_t step) {
    const Evaluation evaluation = trainer_.evaluate(task_.evaluate);
    records_.evaluation(step, evaluation);
    evaluated_ = step;
    score_.reset();
    for (const auto& [name, value] : evaluation)
      if (name == plan_.score) score_ = plan_.higher_is_better ? -value : value;
    if (score_) trainer_.observe(*score_);
  }

  io::SaveRequest request() {
    const std::int64_t step = trainer_.steps();
    StateDict state = trainer_.state();
    for (const auto& [name, value] : task_.constants.values()) state.put(name, value);
    records_.sync();  // what the checkpoint counts on must be on the disk before it is
    state.put("progress/metrics_bytes", records_.metrics_bytes());
    const std::string hash = state_hash(state);
    io::SaveRequest result{.step = step, .state = std::move(state), .state_hash = hash};
    if (evaluated_ == step) result.score = score_;
    return result;
  }

  void save_now() {
    store_.wait();
    store_.save(request());
    collect_saves();
  }

  void collect_saves() {
    for (const io::SaveOutcome& outcome : store_.finished())
      if (!outcome.committed)
        records_.say(fmt::format("checkpoint of step {} was not committed: {}", outcome.step, outcome.problem));
  }

  const RunPlan& plan_;
  Trainer& trainer_;
  const RunTask& task_;
  io::RunFolder folder_;
  io::CheckpointStore store_;
  RunRecords records_;
  std::int64_t started_at_ = 0;
  std::int64_t evaluated_ = -1;
  std::optional<double> score_;
};

}  // namespace

RunEnd run_training(const RunPlan& plan, Trainer& trainer, const RunTask& task) {
  return Loop(plan, trainer, task).run();
}

}  // namespace binade::amp
