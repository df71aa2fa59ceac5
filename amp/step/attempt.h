#pragma once

#include <cstddef>
#include <functional>

#include "binade/amp/step/plan.h"
#include "binade/autograd/observer.h"
#include "binade/core/kernels/step.h"

namespace binade::amp {

class FaultInjection;
class Transaction;

/// A step that the device runs and decides about by itself.
struct DeviceAttempt {
  const Policy& policy;
  int micro_batches = 1;
  std::function<Variable(int micro_batch)> loss{};
  StepPlaces places{};  ///< where the device finds the step's numbers and leaves its results
  Tensor seed{};        ///< what backward starts from: one element, the loss scale
};

/// Runs forward and backward of a step and reaches the verdict on it. This is the only code that calls backward in a
/// step. It writes gradients and the shadows of buffers, which Transaction::roll_back() forgets; nothing that a
/// checkpoint holds.
class AttemptRunner {
 public:
  /// All three must outlive the runner.
  AttemptRunner(Transaction& transaction, FaultInjection& faults, const TrainerOptions& options)
      : transaction_(transaction), faults_(faults), options_(options) {}

  /// Runs the step under `plan`, watched by `observer` if there is one, and judges it on the host. Gradients and
  /// shadows stay for a commit. Throws what the closure throws, after a roll-back.
  Attempt run(const Plan& plan, const StepFeed& feed, TapeObserver* observer = nullptr);
  /// The same, rolled back.
  Attempt rehearse(const Plan& plan, const StepFeed& feed, TapeObserver* observer = nullptr);
  /// Queues forward, backward, verdict and commit on the device. The host learns the outcome later.
  void launch(const DeviceAttempt& step);

  /// The update that a commit of `attempt` makes.
  optim::StepInput update_of(const Attempt& attempt) const;
  /// Sets the factor by which clipping by norm scales the gradients.
  void set_clip_factor(Attempt& attempt) const;

 private:
  template <class LossOf, class SeedOf>
  Variable differentiate(int micro_batch, const LossOf& loss_of, const SeedOf& seed_of);
  AbortCause run_micro_batch(Attempt& attempt, const Plan& plan, const StepFeed& feed, int micro_batch);
  AbortCause judge_forward(Attempt& attempt, const Variable& loss) const;
  void judge_update(Attempt& attempt) const;
  void check_overrides(const Variable& loss);

  Transaction& transaction_;
  FaultInjection& faults_;
  const TrainerOptions& options_;
  bool overrides_checked_ = false;
};

}  // namespace binade::amp
