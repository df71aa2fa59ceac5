#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "binade/core/exclusive_use.h"
#include "binade/core/state_dict.h"
#include "binade/io/data/png.h"
#include "binade/io/files/file_ops.h"

namespace binade::amp {

/// The results of an evaluation.
struct Evaluation {
  std::vector<std::pair<std::string, double>> numbers{};  ///< in order of output: {"val_loss", 1.9}
  std::optional<io::Image> picture{};                     ///< the model's output for an image
  std::string sample{};                                   ///< text that the model generated
};

/// An evaluation may throw this when io::StopSignals::stop_requested() becomes true. The run then stops at once, and
/// the resumed run repeats the evaluation.
struct EvaluationStopped {};

/// Reaction of a run to a checkpoint that cannot be written.
enum class SaveFailure {
  kContinue,  ///< the run continues, reports the error, and retries after 10 s, 20 s, 40 s, …
  kStop,      ///< the run ends with the error
};

/// Settings of a TrainingRun: the run folder (io/files/run_folder.h), intervals, and functions of the program.
struct RunOptions {
  std::string folder{};
  std::int64_t steps = 0;             ///< number of committed updates of the run, in all its processes together
  std::int64_t checkpoint_every = 0;  ///< updates between checkpoints; 0: only by the clock
  double checkpoint_minutes = 10;     ///< longest time between checkpoints (run/save_times.h); 0: only by steps
  SaveFailure save_failure = SaveFailure::kContinue;
  double save_patience = 60;  ///< seconds during which a failed save at the end is retried; at most 5 after a signal
  /// Steps between evaluations; 0: only at the end. After such a step, the run evaluates, passes the score to plateau
  /// schedules, and then saves if a checkpoint is due or the score is the best so far.
  std::int64_t eval_every = 0;
  std::int64_t log_every = 10;  ///< steps between lines of progress, if the output is no terminal
  int keep = 5;                 ///< number of newest checkpoints to keep (io/checkpoint/store.h)
  std::string config{};         ///< content of config.json; default: the trainer's options
  /// Settings that a resumed run changes: "lr 0.001 -> 0.0005". Default: Trainer::changes().
  std::vector<std::string> changes{};

  std::string unit = "steps";  ///< unit of rates: "tokens", "images"
  double units_per_step = 1;   ///< number of these units that a step processes

  /// Evaluates the model; the run calls it inside Trainer::evaluate(). May be empty.
  std::function<Evaluation()> evaluate{};
  /// Name of the number of `evaluate` that selects the best checkpoint and drives plateau schedules. An evaluation with
  /// the best score so far is followed by a save.
  std::string score{};
  bool higher_is_better = false;  ///< a plateau schedule (mode `min`) then gets the negative score

  /// Estimates the memory of a step before the first step of each process, from small steps that are not committed.
  /// Throws OutOfMemoryError if the estimate exceeds memory_limit.
  bool forecast_memory = true;
  double memory_limit = 0;  ///< bytes; 0: the memory of the device

  /// The file operations for checkpoints and config.json. Tests replace them.
  io::FileOps* disk = &io::FileOps::real();

  /// Entries that checkpoints hold in addition to the trainer's state, with full names ("progress/architecture").
  StateDict constants{};
  /// Throws CheckpointError if a checkpoint's constants are not those of this run. May be empty.
  std::function<void(const StateDict&)> check_constants{};
};

class RunFollower;

/// The end of a run.
enum class RunEnd {
  kDone,       ///< all steps are committed
  kPreempted,  ///< a signal stopped the run
  kStopped,    ///< the program stopped the run by TrainingRun::stop()
  kLeft,       ///< the program left the loop before its end, or is still in it
};

/// A training run that is recorded on disk and can be killed at any time:
///
///     amp::TrainingRun run(trainer, {.folder = "runs/shakespeare", .steps = 5000, .checkpoint_every = 500});
///     run.resume_if_possible();
///     for (const auto& batch : run.batches(loader)) run.step(batch, closure);
///
/// The loop ends when `steps` updates are committed, or early on SIGTERM, SIGINT or SIGHUP. In both cases the state is
/// saved, and a resumed run continues to the same bits. The run writes metrics.jsonl, timing.jsonl, headroom.jsonl,
/// samples/ and TensorBoard events, evaluates the model, and saves checkpoints at the planned times and at the end,
/// both before and after the last evaluation. stop() ends it early. A loop that ends in another way saves nothing more.
///
/// Over several ranks (TrainerOptions::ranks), every rank makes a TrainingRun with the same options. Rank 0 alone has
/// the run folder: it evaluates, saves, and tells the others which state to load and when the run ends. A signal to any
/// rank stops all after the same step.
///
/// step() throws the trainer's NumericError if a step cannot be committed. Before that, the run records the attempts at
/// the step and, unless the state itself is bad, saves the state before the step. Functions of the run also throw the
/// LockError, StorageError and CheckpointError of io/, and the exceptions of the functions in RunOptions. The last
/// checkpoint is intact in every case.
class TrainingRun {
 public:
  /// Does not access the disk. The trainer must outlive the run. Throws ArgumentError without a folder or steps.
  TrainingRun(Trainer& trainer, RunOptions options);
  ~TrainingRun();  ///< Waits for a save in flight.
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Begins a run. Throws ArgumentError, and changes nothing, if the folder holds one.
  void begin();
  /// Continues from the newest verified checkpoint, and truncates metrics.jsonl to its step. Throws NoCheckpointError
  /// if there is none.
  void resume();
  /// Calls resume() if the folder holds a run, and begin() if it does not. Restarts, with a message, a run that was
  /// killed before its first checkpoint. Returns true if a checkpoint was loaded.
  bool resume_if_possible();

  /// Returns the range of the micro-batches of each step, until the run ends. Begins the run if it is not open.
  template <class Loader>
  auto batches(Loader& loader) {
    trainer_.attach(loader);
    return detail::BatchRange<Loader>(
        loader, trainer_.options().accumulate, [this] { return goes_on(); },
        [this] { return trainer_.share_of_step(); });
  }
  /// Calls Trainer::step() and records the result.
  template <class Batch, class Closure>
  StepResult step(const Batch& batch, Closure&& closure) {
    const Claim claim(*this, "step");
    forecast(batch, closure);
    return record([&] { trainer_.step(batch, std::forward<Closure>(closure)); });
  }
  /// Reports the memory that a step over such a batch needs. Throws OutOfMemoryError if less is available. The first
  /// step() calls forecast() if the program has not done so.
  template <class Batch, class Closure>
  void forecast(const Batch& batch, Closure&& closure) {
    const Claim claim(*this, "forecast");
    if (std::exchange(memory_forecast_due_, false)) report(trainer_.forecast_memory(batch, closure));
  }
  /// Returns true if the run has another step to do, for loops without batches(). Before it returns false, it evaluates
  /// the model and saves the state.
  bool goes_on();

  /// Ends the run early, for example if a score no longer improves: the loop ends before the next step, after the
  /// evaluation and the save that follow the last step of a run. `reason` is for the records. Over several ranks, rank
  /// 0 decides: the call has no effect on others. May be called in the loop, in `evaluate` and in a callback. A resumed
  /// run goes on, unless the program stops it again.
  void stop(const std::string& reason) { stop_reason_ = reason; }

  /// Returns how the run ended. Call it after the loop.
  RunEnd end() const;

 private:
  class Journal;
  /// True on ranks that write nothing. Waits for rank 0 to open the run, and sets `loaded`.
  bool follows(bool& loaded);
  /// Claims the run and its trainer for one call of the run. If another thread could use the trainer between two calls
  /// by the run, the second one would be refused, and a committed step would not be recorded.
  struct Claim {
    Claim(const TrainingRun& run, const char* name) : of_run(run.use_, name), of_trainer(run.trainer_.use(), name) {}
    ExclusiveUse::Call of_run, of_trainer;
  };
  /// Runs `step` and writes its results to the logs. Begins the run if necessary.
  StepResult record(const std::function<void()>& step);
  /// Logs the forecast, and prints it on the terminal. Begins the run if necessary.
  void report(const std::optional<MemoryForecast>& forecast);

  mutable ExclusiveUse use_{"training run"};
  Trainer& trainer_;
  RunOptions options_;
  std::unique_ptr<Journal> journal_;       // from begin() or resume() on
  std::unique_ptr<RunFollower> follower_;  // the same, on ranks other than 0
  bool memory_forecast_due_;
  std::optional<std::string> stop_reason_{};  // from stop()
};

}  // namespace binade::amp
