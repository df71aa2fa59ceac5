#pragma once

#include <cstdint>
#include <string>

#include "binade/core/state_dict.h"

namespace binade::amp {

struct StepResult;

/// User code that runs before and after each step, with state that checkpoints hold. Derive a class, and pass an object
/// to Trainer::add_callback(). With callbacks, no step is submitted ahead (TrainerOptions::ahead).
class Callback {
 public:
  virtual ~Callback() = default;

  /// Name of its state in checkpoints, a part of a path. Unique within a trainer.
  virtual std::string name() const = 0;
  /// Called once before the first attempt at a step, from 1. Retries and replays do not repeat the call, so that they
  /// compute what the first attempt computed. If it throws, the step does not run.
  virtual void before_step(std::int64_t step) { static_cast<void>(step); }
  /// Called after each commit. May add metrics to `result`: they go into the logs of a run. If it throws, the step
  /// stays committed.
  virtual void after_commit(StepResult& result) { static_cast<void>(result); }

  /// Returns the state that a resumed run needs to call the functions above with the same effect. Numbers must be
  /// finite: a checkpoint with an infinity is not written.
  virtual StateDict state() const { return {}; }
  /// Throws CheckpointError if load_state() cannot take this state, and changes nothing.
  virtual void check_state(const StateDict& state) const { static_cast<void>(state); }
  /// Restores a state; an empty one, from a run without this callback, is the state before the first step.
  virtual void load_state(const StateDict& state) { static_cast<void>(state); }
};

}  // namespace binade::amp
