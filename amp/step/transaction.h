#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/step/options.h"
#include "binade/amp/step/remediation_policy.h"
#include "binade/amp/warnings/spike_guard.h"
#include "binade/amp/warnings/warnings.h"
#include "binade/core/kernels/step.h"
#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/nn/module.h"
#include "binade/optim/device_updates.h"
#include "binade/optim/ema.h"
#include "binade/optim/schedule.h"

namespace binade::io {
struct BatchOrigin;
}

namespace binade::amp {

/// The parts of a loader that Trainer::attach() uses.
struct DataHooks {
  std::function<StateDict()> state{};
  std::function<void(const StateDict&)> load_state{};  ///< checks first, and changes nothing if it throws
  std::function<void(const io::BatchOrigin&)> commit{};
  std::function<void(std::int64_t sample)> quarantine{};  ///< may be missing
};

/// What the members of a transaction learn about the step that they commit.
struct Commit {
  std::int64_t step = 0;
  optim::StepInput input{};
  double loss = 0;
  double grad_norm = 0;                      ///< before clipping
  double headroom = 0;                       ///< binades that the scaled gradients left; not finite if not known
  const io::BatchOrigin* origin = nullptr;   ///< of the last micro-batch
  const Telemetry& telemetry;                ///< of the attempt
  std::span<const BlockExtremes> written{};  ///< not empty: the device updated the weights, and left these extremes
  std::vector<std::string>& notes;           ///< for people
};

/// One of the things that a step changes. A second optimizer, model or rank is one more member.
struct Member {
  /// Adds its entries to a checkpoint's state; tensors alias.
  std::function<void(StateDict& state)> put{};
  /// Throws CheckpointError or DataError if load() could not take this state; changes nothing then.
  std::function<void(const StateDict& state)> check{};
  std::function<void(const StateDict& state)> load{};
  std::function<void(const Commit& step)> commit{};
  std::function<void()> roll_back{};  ///< forgets what an attempt left
};

/// All that a step may change: parameters, moments, averages, buffers, loss scale, warnings, lasting remedies,
/// schedule, counters and data cursor. Nothing else writes them. They change together in commit(), or not at all:
/// roll_back().
class Transaction {
 public:
  /// Stores the model's weights as the policy wants them. All arguments must outlive the transaction.
  Transaction(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, const TrainerOptions& options);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Device device() const { return runtime_.device(); }
  std::uint64_t seed() const { return runtime_.seed(); }
  nn::Module& model() const { return model_; }
  optim::Optimizer& optimizer() const { return optimizer_; }
  optim::DeviceUpdates device_updates() const { return optim::DeviceUpdates(optimizer_); }
  optim::Ema* ema() { return ema_ ? &*ema_ : nullptr; }
  const LossScaler& scaler() const { return scaler_; }
  const optim::Schedule& schedule() const { return schedule_; }
  const RemediationPolicy& remediation() const { return remediation_; }
  const Warnings& warnings() const { return warnings_; }
  const SpikeGuard& spikes() const { return spikes_; }
  /// The run's policy with the promotions that are active now.
  Policy policy() const { return remediation_.applied_to(options_.precision); }
  double lr_of(std::int64_t step) const;

  /// Counters over the whole run, which rollbacks do not set back. Checkpoints hold them.
  struct Totals {
    std::int64_t skipped = 0;  ///< aborted attempts

    struct Entry {
      const char* name;
      std::int64_t Totals::*value;
      bool required;  ///< false: 0 in a checkpoint that lacks the entry because it is older
    };
    static constexpr Entry kEntries[] = {{"progress/skipped_total", &Totals::skipped, true}};
  };
  /// Counters of the step that is being made start over when it commits.
  struct Counters {
    Totals total{};
    std::int64_t steps = 0;      ///< committed
    std::int64_t attempts = 0;   ///< at the step that is being made
    std::int64_t incidents = 0;  ///< of it
    std::int64_t skips = 0;      ///< batches that it skipped
  };
  const Counters& count() const { return counters_; }
  std::int64_t next_step() const { return counters_.steps + 1; }

  // ---- a step

  std::int64_t begin_attempt() { return ++counters_.attempts; }
  /// Commits every member.
  void commit(const Commit& step);
  /// Early warnings that the committed step shows.
  std::vector<Warning> find_warnings(const CommittedStep& step) { return warnings_.after_commit(step); }
  /// Queues verdict, update and commit on the device, as part of a captured step.
  void launch_commit(const StepPlaces& places);
  /// Forgets gradients and shadows of buffers.
  void roll_back();
  /// Also those of parameters that the optimizer does not hold.
  void forget_gradients();
  void count_aborted() { ++counters_.total.skipped; }

  // ---- what remedies change

  /// Promotes ops as earlier telemetry decided for the next step.
  void promote_due();
  /// Computes an op ("PATH/op") in f32 from the next step on. Returns the last step it applies to, 0: it did already.
  std::int64_t promote(const std::string& target) { return remediation_.promote(target, next_step()); }
  ScaleVerdict lower_scale() { return scaler_.overflowed(); }
  void restore_scale(const LossScaler::State& state) { scaler_.restore(state); }
  void begin_with_scale(double scale, double headroom) { scaler_.begin_with(scale, headroom); }
  void quarantine(std::int64_t sample);
  void forget_spikes() { spikes_ = SpikeGuard(); }
  std::int64_t count_incident() { return ++counters_.incidents; }
  void count_skip() { ++counters_.skips; }
  /// Goes on from a checkpoint. If its state was to blame the data goes back with it; else the data stays past `origin`
  /// and the learning rate is cut.
  void go_back(const RecoveryPoint& point, bool state_to_blame, const io::BatchOrigin* origin);

  /// Calls `f`, which may put weights, moments and statistics of checkpoints in place of today's, for replays. Puts
  /// today's back afterwards, also if `f` throws.
  using PutWeights = std::function<void(const StateDict& saved)>;
  void with_other_weights(const std::function<void(const PutWeights& put)>& f);

  // ---- between steps

  void observe(double loss) { schedule_.observe(loss); }
  /// A cursor that load() found no loader for is handed to this one.
  void attach(DataHooks data);

  /// Everything that a bitwise resume needs; tensors alias.
  StateDict state() const;
  /// Goes on from there, fitted to the options. Throws CheckpointError or DataError, and changes nothing then.
  void load(const StateDict& saved);
  /// The settings that `saved` was made with otherwise: "precision bf16 -> fp16".
  std::vector<std::string> changes_since(const StateDict& saved) const;
  /// The same of the state that was loaded last.
  const std::vector<std::string>& changes() const { return changes_; }

 private:
  void add_members();
  StateDict fitted(const StateDict& saved) const;
  StateDict cursor() const { return data_.state ? data_.state() : waiting_cursor_; }

  Runtime& runtime_;
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  const TrainerOptions& options_;
  LossScaler scaler_;
  optim::Schedule schedule_;
  std::optional<optim::Ema> ema_;
  RemediationPolicy remediation_;
  Warnings warnings_;
  SpikeGuard spikes_;
  Counters counters_;
  DataHooks data_;
  StateDict waiting_cursor_;  // loaded before there was a loader
  std::vector<std::string> changes_;
  std::vector<Member> members_;  // in the order of a commit
};

}  // namespace binade::amp
