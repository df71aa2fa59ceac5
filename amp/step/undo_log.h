#pragma once

#include "binade/core/state_dict.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// A copy of everything that the updates of one optimizer change: weights, moments and counts. A step of several phases
/// needs it, because its earlier updates precede the verdict on its later phases.
class UndoLog {
 public:
  /// Allocates the copy. Call it outside of the step, whose own memory is freed at its end.
  void reserve(optim::Optimizer& optimizer);
  /// Copies the state of the optimizer, unless it was copied in this step already.
  void save(optim::Optimizer& optimizer);
  /// Restores the state, if one was saved, and drops it.
  void restore(optim::Optimizer& optimizer);
  void drop() { holds_state_ = false; }
  /// True between save() and restore() or drop().
  bool holds_state() const { return holds_state_; }

 private:
  StateDict copy_;
  bool holds_state_ = false;
};

}  // namespace binade::amp
