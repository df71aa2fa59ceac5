#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "amp/trainer.h"
#include "core/state_dict.h"

namespace binade::amp {

/// Where a run writes and how often. Files: see io/run_folder.h.
struct RunPlan {
  std::string folder;
  bool resume = false;
  std::string config;                 ///< the text of config.json
  std::int64_t steps = 0;             ///< committed updates in the run's whole life
  std::int64_t checkpoint_every = 0;  ///< 0: at the end only
  std::int64_t eval_every = 0;        ///< 0: at the end only
  std::int64_t log_every = 10;
  int keep = 5;
  std::string unit = "samples";  ///< what rates count: "tokens", "images"
  double units_per_step = 1;
  std::string score;  ///< the evaluation field that "best" and a plateau schedule are judged by
  bool higher_is_better = false;
  bool scaled = false;  ///< there is a loss scale worth showing
};

/// Fields of an evaluation, in the order in which they are written: {"val_loss", 1.9}.
using Evaluation = std::vector<std::pair<std::string, double>>;

/// What differs from program to program. Called from the caller's thread.
struct RunTask {
  /// One Trainer::step on the next batch.
  std::function<void()> update;
  /// Called inside Trainer::evaluate.
  std::function<Evaluation()> evaluate;
  /// What a checkpoint must hold beside the trainer's state, in full names ("progress/architecture").
  StateDict constants;
  /// Throws CheckpointError when a checkpoint's constants are not those of this run. May be left out.
  std::function<void(const StateDict&)> check_constants;
};

/// How a run ended.
enum class RunEnd { kDone, kPreempted };

/// Trains until `steps` updates are committed: metrics.jsonl, timing.jsonl and TensorBoard events are written, the
/// model is evaluated and checkpoints are committed as planned and at the end; SIGTERM and SIGINT finish the step and
/// commit. With `resume`, goes on from the newest verified checkpoint, and metrics.jsonl is cut back to what that
/// checkpoint knew.
///
/// A step that cannot be committed ends the run with the trainer's NumericError, after its attempts are written down.
/// Throws ArgumentError when `folder` holds a run already, NoCheckpointError, CheckpointError, LockError, StorageError
/// as io/ does, and whatever the hooks throw; the last commit is intact in every case.
RunEnd run_training(const RunPlan& plan, Trainer& trainer, const RunTask& task);

}  // namespace binade::amp
