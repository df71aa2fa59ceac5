#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "binade/core/state_dict.h"
#include "binade/io/data/png.h"
#include "binade/io/files/file_ops.h"

namespace binade::amp {

/// The results of an evaluation.
struct Evaluation {
  std::vector<std::pair<std::string, double>> numbers{};  ///< in the order in which they are written: {"val_loss", 1.9}
  std::optional<io::Image> picture{};                     ///< the model's output for an image
  std::string sample{};                                   ///< text that the model generated
};

/// What an evaluation may throw when io::StopSignals::stop_requested() turns true: the run stops at once, and the
/// resumed run makes the evaluation up.
struct EvaluationStopped {};

/// What a run does if a checkpoint cannot be written.
enum class SaveFailure {
  kContinue,  ///< it is reported and tried again, after 10 s, then after twice as long each time; the run goes on
  kStop,      ///< the run ends with the error
};

/// Where a run writes, how often, and what differs from program to program. Files: see io/files/run_folder.h.
struct RunOptions {
  std::string folder{};
  std::int64_t steps = 0;             ///< committed updates in the run's whole life
  std::int64_t checkpoint_every = 0;  ///< updates between checkpoints, 0: by the clock alone
  double checkpoint_minutes = 10;     ///< longest time between checkpoints (run/save_times.h), 0: by steps alone
  SaveFailure save_failure = SaveFailure::kContinue;
  double save_patience = 60;  ///< seconds during which the last save of a run is tried again; after a signal at most 5
  std::int64_t eval_every = 0;  ///< 0: at the end only
  std::int64_t log_every = 10;
  int keep = 5;          ///< number of newest checkpoints that are kept, see io/checkpoint/store.h
  std::string config{};  ///< the text of config.json; left out: the trainer's own options
  /// Settings of a resumed run that its user changed: "lr 0.001 -> 0.0005". Left out: Trainer::changes().
  std::vector<std::string> changes{};

  std::string unit = "samples";  ///< what rates count: "tokens", "images"
  double units_per_step = 1;

  /// Called inside Trainer::evaluate. May be left out.
  std::function<Evaluation()> evaluate{};
  std::string score{};  ///< the evaluation field that selects the "best" checkpoint and drives a plateau schedule
  bool higher_is_better = false;

  /// Before the first step of each process, estimates the memory of a step from two small ones that are not committed,
  /// and throws OutOfMemoryError if it needs more than there is.
  bool forecast_memory = true;
  double memory_limit = 0;  ///< bytes that there are; 0: what the device has

  /// Stands in for the disk that checkpoints and config.json are written to; for tests.
  io::FileOps* disk = &io::FileOps::real();

  /// What a checkpoint must hold beside the trainer's state, in full names ("progress/architecture").
  StateDict constants{};
  /// Throws CheckpointError when a checkpoint's constants are not those of this run. May be left out.
  std::function<void(const StateDict&)> check_constants{};
};

/// How a run ended.
enum class RunEnd { kDone, kPreempted };

/// A training run that is recorded on disk and can be killed at any instant:
///
///     amp::TrainingRun run(trainer, {.folder = "runs/shakespeare", .steps = 5000, .checkpoint_every = 500});
///     run.resume_if_possible();
///     for (const auto& batch : run.batches(loader)) run.step(batch, closure);
///
/// The loop ends when `steps` updates are committed, or early on SIGTERM, SIGINT or SIGHUP; the state is committed in
/// all cases, and resuming goes on to the same bits. metrics.jsonl, timing.jsonl, headroom.jsonl, samples/ and
/// TensorBoard events are written, the model is evaluated and checkpoints are committed as planned and at the end, both
/// before and after the last evaluation. A loop that ends in another way commits nothing more.
///
/// A step that cannot be committed throws the trainer's NumericError. Before that, the run records its attempts and,
/// unless the state itself is bad, saves the earlier steps. Throws LockError, StorageError and CheckpointError as io/
/// does, and whatever the hooks throw; the last commit is intact in every case.
class TrainingRun {
 public:
  /// Touches nothing on the disk yet. The trainer must outlive the run. Throws ArgumentError without a folder or steps.
  TrainingRun(Trainer& trainer, RunOptions options);
  ~TrainingRun();  ///< waits for a save in flight
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Begins a run. Throws ArgumentError when the folder holds one already; nothing is touched then.
  void begin();
  /// Goes on from the newest verified checkpoint; metrics.jsonl is cut back to what that checkpoint knew. Throws
  /// NoCheckpointError when there is none.
  void resume();
  /// resume() where the folder holds a run, begin() where it does not. A run that was killed before its first
  /// checkpoint begins again, and says so. True when a checkpoint was loaded.
  bool resume_if_possible();

  /// The micro-batches of one step after the other, until the run has ended. Begins the run where none of the calls
  /// above was made.
  template <class Loader>
  auto batches(Loader& loader) {
    trainer_.attach(loader);
    return detail::BatchRange<Loader>(loader, trainer_.options().accumulate, [this] { return goes_on(); });
  }
  /// One Trainer::step, written down.
  template <class Batch, class Closure>
  StepResult step(const Batch& batch, Closure&& closure) {
    forecast(batch, closure);
    return record([&] { trainer_.step(batch, std::forward<Closure>(closure)); });
  }
  /// What the first step() does first, for who would know before: tells what a step over such a batch needs. Once.
  /// Throws OutOfMemoryError where there is not as much.
  template <class Batch, class Closure>
  void forecast(const Batch& batch, Closure&& closure) {
    if (std::exchange(forecast_due_, false)) tell(trainer_.forecast_memory(batch, closure));
  }
  /// For loops of another shape: whether there is a step to do. At the end of the run it evaluates and commits first.
  bool goes_on();

  /// Meaningful when the loop has ended.
  RunEnd end() const;

 private:
  class Journal;
  StepResult record(const std::function<void()>& step);
  void tell(const std::optional<MemoryForecast>& forecast);

  Trainer& trainer_;
  RunOptions options_;
  std::unique_ptr<Journal> journal_;  // from begin() or resume() on
  bool forecast_due_;
};

}  // namespace binade::amp
