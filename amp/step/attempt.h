#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/ranks/ballot.h"
#include "binade/amp/ranks/pace.h"
#include "binade/amp/step/metrics.h"
#include "binade/amp/step/override_names.h"
#include "binade/amp/step/plan.h"
#include "binade/amp/step/registration.h"
#include "binade/autograd/observer.h"
#include "binade/core/kernels/step.h"
#include "binade/core/rank_tree.h"
#include "binade/core/step_context.h"

namespace binade::amp {

class FaultInjection;
class Transaction;

/// A step that the device runs and commits without the host.
struct DeviceAttempt {
  const Policy& policy;
  int micro_batches = 1;
  std::function<Variable(int micro_batch)> loss{};
  StepAddresses addresses{};  ///< device addresses of the step's inputs and results
  Tensor seed{};              ///< initial gradient of backward: one element, the loss scale
};

/// Runs forward and backward of a step and decides if it can be committed. No other code calls backward in a step.
/// Writes only what Transaction::roll_back() discards: gradients, uncommitted buffers, and the updates of all phases
/// but the last.
class AttemptRunner {
 public:
  /// The arguments must outlive the runner.
  AttemptRunner(Transaction& transaction, FaultInjection& faults, const TrainerOptions& options)
      : transaction_(transaction),
        faults_(faults),
        options_(options),
        registration_(transaction),
        rates_(transaction) {}

  /// Runs the step under `plan` and computes the verdict on the host. Leaves what it wrote in place, for a commit. Each
  /// observer may be null. If the closure throws a DataError, the attempt is aborted; after any other error, rolls back
  /// and rethrows.
  Attempt run(const AttemptPlan& plan, const StepFeed& feed, TapeObserver* observer = nullptr,
              TapeObserver* second_observer = nullptr);
  Communicator& ranks() const;
  /// Runs the step and rolls it back.
  Attempt rehearse(const AttemptPlan& plan, const StepFeed& feed, TapeObserver* observer = nullptr);
  /// Queues forward, backward, verdict and commit on the device, without synchronizing.
  void launch(const DeviceAttempt& step);

  /// Returns the updates of a captured step, one for each optimizer.
  std::vector<OptimizerUpdate> updates_of(const Attempt& attempt) const;
  Registration& registration() { return registration_; }
  const LearningRates& rates() const { return rates_; }
  /// Returns new messages for the log: the reason, once, why steps of this kind are never captured although
  /// TrainerOptions::record is set; and the ranks that are slow in most steps (RankPace).
  std::vector<std::string> take_notes(const StepFeed& feed);
  /// Sets attempt.clip_factor, by which clipping by norm multiplies the gradients.
  void set_clip_factor(Attempt& attempt) const;

 private:
  /// A phase in progress, with the values that the later phases of the attempt need.
  struct Phase {
    int number = 0;
    double lr_factor = 1;                      // factor of injected faults
    std::vector<std::size_t> optimizers{};     // indices in Transaction::optimizers()
    std::vector<optim::GradientScan> scans{};  // gradients of these optimizers
    const LeafSet* excluded = nullptr;         // the parameters that the phase does not train
    OpNumbers first_op{};                      // numbers of the first op of the phase
    OpNumbers next_op{};                       // larger than the numbers of all ops so far
    std::vector<std::uint32_t> words{};        // the largest GradientScan::words of all phases so far
    const Registration::Watch* watch = nullptr;
  };
  template <class LossOf, class SeedOf>
  Variable differentiate(int micro_batch, const OpNumbers& first_op, const LeafSet& excluded, const LossOf& loss_of,
                         const SeedOf& seed_of);
  const LeafSet& excluded_in(const std::vector<std::size_t>& optimizers);
  void run_phase(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase);
  void run_in_order(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase);
  void run_leaves(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase, int leaves);
  void run_leaf(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase, LeafRange micro_batches,
                Ballot& ballot);
  AbortCause run_micro_batch(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase,
                             int micro_batch);
  AbortCause try_micro_batch(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase,
                             int micro_batch);
  optim::GradientScan scan_gradients(Phase& phase) const;
  AbortCause judge_forward(Attempt& attempt, const Variable& loss) const;
  OptimizerUpdate update_of(const Attempt& attempt, std::size_t optimizer, double lr_factor) const;
  void judge_updates(Attempt& attempt, const Phase& phase) const;
  void judge_step(Attempt& attempt, const AttemptPlan& plan) const;
  std::string take_capture_note(const StepFeed& feed);
  void check_overrides();

  Transaction& transaction_;
  FaultInjection& faults_;
  const TrainerOptions& options_;
  Registration registration_;
  LearningRates rates_;
  std::map<std::vector<std::size_t>, LeafSet> excluded_;  // results of excluded_in()
  std::optional<OverrideNames> names_;                    // until the overrides are checked
  bool overrides_checked_ = false;
  bool capture_noted_ = false;
  RankPace pace_;
  std::string pace_note_;
};

}  // namespace binade::amp
