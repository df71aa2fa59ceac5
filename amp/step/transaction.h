#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/step/options.h"
#include "binade/amp/step/participants.h"
#include "binade/amp/step/remediation_policy.h"
#include "binade/amp/step/undo_log.h"
#include "binade/amp/verdict.h"
#include "binade/amp/warnings/spike_guard.h"
#include "binade/amp/warnings/warnings.h"
#include "binade/core/communicator.h"
#include "binade/core/exclusive_use.h"
#include "binade/core/kernels/step.h"
#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/nn/module.h"
#include "binade/optim/device_updates.h"
#include "binade/optim/ema.h"
#include "binade/optim/parameter_list.h"
#include "binade/optim/schedule.h"

namespace binade::io {
struct BatchOrigin;
}

namespace binade::amp {

class Callback;

/// The functions of a loader that Trainer::attach() uses.
struct DataHooks {
  std::function<StateDict()> state{};
  std::function<void(const StateDict&)> load_state{};  ///< must change nothing if it throws
  std::function<void(const io::BatchOrigin&)> commit{};
  std::function<void(std::int64_t sample)> quarantine{};  ///< may be empty
};

/// The committed step, as Member::commit receives it.
struct Commit {
  std::int64_t step = 0;
  std::span<const OptimizerUpdate> updates{};  ///< the updates of the step's last phase
  double loss = 0;
  double grad_norm = 0;                     ///< gradient norm before clipping
  double headroom = 0;                      ///< headroom of the scaled gradients in binades; not finite if unknown
  const io::BatchOrigin* origin = nullptr;  ///< origin of the last micro-batch; null if its type has none
  const Telemetry& telemetry;               ///< telemetry of the committed attempt
  /// The largest weights and moments, if the device updated them; empty if the host must do so.
  std::span<const BlockExtremes> written{};
  std::vector<std::string>& notes;  ///< output: messages for people, about promotions that ended
};

/// A part of the state that a step changes.
struct Member {
  /// Adds the member's entries to a checkpoint's state. Tensors share memory with the member's.
  std::function<void(StateDict& state)> put{};
  /// Throws CheckpointError or DataError if load() cannot take this state. Changes nothing.
  std::function<void(const StateDict& state)> check{};
  std::function<void(const StateDict& state)> load{};
  std::function<void(const Commit& step)> commit{};
  std::function<void()> roll_back{};  ///< discards the effects of an attempt
};

/// Everything that a step may change: parameters, moments, averages, buffers, loss scale, warnings, lasting remedies,
/// schedule, counters and data cursor. commit() changes them together; roll_back() discards the effects of an attempt
/// on them. No other code writes them.
class Transaction {
 public:
  /// Converts the model's weights to the dtype of the policy. The arguments must outlive the transaction.
  Transaction(Runtime& runtime, const Participants& participants, const TrainerOptions& options);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  /// Claims the transaction for a call of a function of the trainer. Throws ArgumentError if another thread has claimed
  /// it (ExclusiveUse).
  ExclusiveUse::Call call(const char* name) const { return {use_, name}; }
  ExclusiveUse& use() const { return use_; }
  /// The transaction, claimed while this object exists.
  class Used {
   public:
    Used(const Transaction& transaction, const char* name) : call_(transaction.call(name)), transaction_(transaction) {}
    const Transaction* operator->() const { return &transaction_; }

   private:
    ExclusiveUse::Call call_;
    const Transaction& transaction_;
  };
  Used used_by(const char* name) const { return {*this, name}; }

  Device device() const { return runtime_.device(); }
  std::uint64_t seed() const { return runtime_.seed(); }
  Communicator& ranks() const { return *options_.ranks; }
  /// Returns the number of leaves of a step with this number of micro-batches (TrainerOptions::leaves). Throws
  /// ArgumentError if there are more ranks than leaves.
  int leaves_of(int micro_batches) const;
  double last_grad_norm() const { return last_grad_norm_; }  ///< norm in the last committed step; 0 after load()
  const nn::Shadows& shadows() const { return shadows_; }    ///< shadows of the buffers that the step writes
  bool has_named_models() const { return group_ != nullptr; }
  nn::Module& model() const { return model_; }  ///< if there are several models, they are its submodules
  const std::vector<optim::Optimizer*>& optimizers() const { return optimizers_; }
  /// Returns a number that changes if anything but an update writes a parameter of an optimizer.
  std::uint64_t other_writes() const;
  /// The parameters of all optimizers. Those of optimizer i begin at first_parameter(i).
  const optim::ParameterList& parameters() const { return parameters_; }
  std::size_t first_parameter(std::size_t optimizer) const { return first_parameters_[optimizer]; }
  /// Returns the indices of these optimizers; of all optimizers if the list is empty. Throws ArgumentError if one of
  /// them is not an optimizer of the trainer.
  std::vector<std::size_t> indices_of(std::span<optim::Optimizer* const> optimizers) const;
  /// Returns the names of these optimizers: "encoder, decoder".
  std::string names_of(std::span<const std::size_t> optimizers) const;
  /// True if the device can commit a step without the host: no model follows another one.
  bool can_be_captured() const {
    return std::ranges::all_of(states_, [](const OptimizerState& one) { return !one.follower; });
  }
  optim::DeviceUpdates device_updates() const { return optim::DeviceUpdates(optimizers_); }
  /// Returns the averages of all optimizers' weights; a null pointer for an optimizer without averages.
  std::vector<optim::Ema*> averages() const;
  const LossScaler& scaler() const { return scaler_; }
  const optim::Schedule& schedule(std::size_t optimizer = 0) const { return states_[optimizer].schedule; }
  const RemediationPolicy& remediation() const { return remediation_; }
  const Warnings& warnings() const { return warnings_; }
  const SpikeGuard& spikes() const { return spikes_; }
  /// Returns the run's policy with the active promotions.
  Policy policy() const { return remediation_.applied_to(options_.precision); }
  /// Returns the learning rate of an optimizer in a step by its schedule, lowered if a rollback demands it.
  double lr_of(std::int64_t step, std::size_t optimizer = 0) const;
  /// Returns the highest learning rate of an optimizer's schedule.
  double highest_lr(std::size_t optimizer) const;

  /// Counters over the whole run, which rollbacks do not reset. Checkpoints hold them.
  struct Totals {
    std::int64_t skipped = 0;    ///< aborted attempts
    std::int64_t verified = 0;   ///< attempts of which one micro-batch was computed twice
    std::int64_t corrupted = 0;  ///< attempts among them whose bits differed

    struct Entry {
      const char* name;  ///< name of the entry in a checkpoint
      std::int64_t Totals::*value;
      bool required;  ///< false: an older checkpoint may lack the entry; its value is then 0
    };
    static constexpr Entry kEntries[] = {{"progress/skipped_total", &Totals::skipped, true},
                                         {"progress/verified_total", &Totals::verified, false},
                                         {"progress/corrupted_total", &Totals::corrupted, false}};
  };
  /// The counters of a run. Those of the current step are reset by its commit.
  struct Counters {
    Totals total{};
    std::int64_t steps = 0;      ///< number of committed steps
    std::int64_t attempts = 0;   ///< number of attempts at the current step
    std::int64_t incidents = 0;  ///< number of incidents of the current step
    std::int64_t skips = 0;      ///< number of batches skipped in the current step
  };
  const Counters& counters() const { return counters_; }
  /// Numbers that any thread may read at any time: those of counters(), and the number of steps in flight, which the
  /// trainer sets.
  struct Published {
    std::atomic<std::int64_t> steps = 0, skipped = 0, in_flight = 0;
  };
  Published& published() { return published_; }
  std::int64_t next_step() const { return counters_.steps + 1; }

  // ---- a step

  /// Counts an attempt of which one micro-batch was computed twice. `corrupted`: its bits differed.
  void count_verification(bool corrupted) {
    ++counters_.total.verified;
    if (corrupted) ++counters_.total.corrupted;
  }
  /// Returns the number of the new attempt at the current step, from 1 on.
  std::int64_t begin_attempt() { return ++counters_.attempts; }
  /// Allocates the copies that update_before_verdict() needs for these optimizers.
  void reserve_undo(std::span<const std::size_t> optimizers);
  /// Makes the updates of a phase whose step has further phases. roll_back() undoes them.
  void update_before_verdict(std::int64_t step, std::span<const OptimizerUpdate> updates);
  /// Commits every member. If an error occurs before the first write, rolls back and rethrows.
  void commit(const Commit& step);
  /// Returns the early warnings of the committed step.
  std::vector<Warning> find_warnings(const CommittedStep& step);
  /// Queues verdict, update and commit on the device, as part of a captured step. `addresses.numbers` has an element
  /// for the step, and then one for each optimizer, with its number of updates and the weight of its averages.
  void launch_commit(const StepAddresses& addresses);
  /// Discards gradients and uncommitted buffers, and undoes the updates of earlier phases.
  void roll_back();
  /// Keeps the gradients of these updates until the next step, for Variable::grad(), and discards all others.
  void keep_gradients(std::span<const OptimizerUpdate> updates);
  /// Makes Variable::grad() throw AutogradError, because the committed step ran as a captured graph.
  void hide_gradients();
  /// Discards the gradients of all parameters, also of those that no optimizer updates.
  void discard_gradients();
  void count_aborted() {
    ++counters_.total.skipped;
    set_counters(counters_);
  }

  // ---- remedies

  /// Starts the promotions that early warnings planned for the next step.
  void promote_due();
  /// Promotes an op ("PATH/op") from the next step on. Returns the last step of the promotion; 0 if it is active
  /// already.
  std::int64_t promote(const std::string& target) { return remediation_.promote(target, next_step()); }
  ScaleVerdict lower_scale() { return scaler_.overflowed(); }
  void restore_scale(const LossScaler::State& state) { scaler_.restore(state); }
  void begin_with_scale(double scale, double headroom) { scaler_.begin_with(scale, headroom); }
  void quarantine(std::int64_t sample);
  /// Replaces averages that are not finite (optim::Ema::mend). `point`: the checkpoint whose averages are used; may be
  /// null. Returns false if there are no averages, or if some are still not finite because their weights are not.
  bool mend_averages(const RecoveryPoint* point);
  bool averages_are_finite();
  void forget_spikes() { spikes_ = SpikeGuard(); }
  std::int64_t count_incident() { return ++counters_.incidents; }
  void count_skip() { ++counters_.skips; }
  /// Continues from a checkpoint. If the state is to blame, the data cursor is rolled back too; otherwise the cursor
  /// moves past the batch with `origin`, and the learning rate is lowered for a while.
  void roll_back_to(const RecoveryPoint& point, bool state_to_blame, const io::BatchOrigin* origin);

  /// Calls `f`, which may replace weights, moments, statistics and averages by those of checkpoints. Restores the
  /// current ones afterwards, also if `f` throws.
  using PutWeights = std::function<void(const StateDict& saved)>;
  void with_other_weights(const std::function<void(const PutWeights& put)>& f);

  // ---- between steps

  void observe(double loss);
  void add_callback(Callback& callback);
  const std::vector<Callback*>& callbacks() const { return callbacks_; }
  /// Attaches a loader. It gets the data cursor if load() was called before.
  void attach(DataHooks data);

  /// Returns everything that a bitwise resume needs. Tensors share memory with those of the run.
  StateDict state() const;
  /// Loads a state, converted to the options. Throws CheckpointError or DataError, and then changes nothing.
  void load(const StateDict& saved);
  /// Returns the settings that differ from those of `saved`: "precision bf16 -> fp16".
  std::vector<std::string> changes_since(const StateDict& saved) const;
  /// Returns the result of changes_since() for the last loaded state.
  const std::vector<std::string>& changes() const { return changes_; }

 private:
  /// What the transaction holds for one optimizer.
  struct OptimizerState {
    std::string name{};     // empty if it is the only one
    std::string section{};  // section of its state in checkpoints
    bool is_scheduled = false;
    optim::Schedule schedule;
    std::unique_ptr<optim::Ema> averages{};
    std::unique_ptr<optim::Ema> follower{};  // averages that are the weights of another model (NamedModel::average_of)
    UndoLog undo{};
    bool has_update = false;  // true if the current step has updated it
  };

  void set_counters(const Counters& now) {
    counters_ = now;
    published_.steps = now.steps;
    published_.skipped = now.total.skipped;
  }
  void add_optimizers(const Participants& participants);
  void add_members();
  void add_optimizer_members(std::size_t optimizer);
  void sample_updates(std::int64_t step, std::span<const OptimizerUpdate> updates);
  void make_updates(std::span<const OptimizerUpdate> updates);
  StateDict converted(const StateDict& saved) const;
  std::int64_t leaves_with(const StateDict& saved) const;
  StateDict cursor() const { return data_.state ? data_.state() : waiting_cursor_; }

  mutable ExclusiveUse use_{"trainer"};
  Runtime& runtime_;
  std::unique_ptr<nn::Module> group_;  // null if there is one model
  nn::Module& model_;
  const TrainerOptions& options_;
  LossScaler scaler_;
  std::vector<optim::Optimizer*> optimizers_;
  std::vector<OptimizerState> states_;  // one per optimizer
  optim::ParameterList parameters_;
  std::vector<std::size_t> first_parameters_;  // one per optimizer
  nn::Shadows shadows_;
  RemediationPolicy remediation_;
  Warnings warnings_;
  SpikeGuard spikes_;
  Counters counters_;
  std::int64_t leaves_ = 1;
  double last_grad_norm_ = 0;
  Published published_;
  std::vector<Callback*> callbacks_;
  StateDict loaded_callbacks_;    // section "callbacks" of the loaded state, for callbacks that are added later
  std::int64_t loaded_step_ = 0;  // number of committed steps of that state
  DataHooks data_;
  StateDict waiting_cursor_;  // the data cursor, if it was loaded before a loader was attached
  std::vector<std::string> changes_;
  std::vector<Member> members_;  // in the order of a commit
};

}  // namespace binade::amp
