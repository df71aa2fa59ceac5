#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "binade/amp/incident/diagnosis.h"
#include "binade/amp/incident/fire_drill.h"
#include "binade/amp/incident/remedy.h"
#include "binade/amp/loss_scaler.h"
#include "binade/amp/policy.h"
#include "binade/amp/preflight/finding.h"
#include "binade/amp/step/batches.h"
#include "binade/amp/step/ladder.h"
#include "binade/amp/step/memory_forecast.h"
#include "binade/amp/step/step_feed.h"
#include "binade/amp/step/step_recorder.h"
#include "binade/amp/verdict.h"
#include "binade/amp/warnings/signs.h"
#include "binade/amp/warnings/spike_guard.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/backend.h"
#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/core/step_context.h"
#include "binade/core/step_stats.h"
#include "binade/io/data/batch_order.h"
#include "binade/nn/module.h"
#include "binade/optim/ema.h"
#include "binade/optim/optimizer.h"
#include "binade/optim/schedule.h"

namespace binade::amp {

/// A failure of a step that the loss scale does not explain.
struct Incident {
  std::int64_t step = 0;
  std::int64_t attempt = 1;
  std::string what{};  ///< a one-line summary of the failure
  Diagnosis diagnosis{};
  Remedy remedy{};                         ///< the remedy that was applied
  bool drill = false;                      ///< a fault was planted in this step
  bool warning = false;                    ///< an evaluation failed; training is not affected
  std::string no_capsule{};                ///< why there is no capsule, if one was wanted (set_capsule_sink)
  std::vector<ModuleHeadroom> headroom{};  ///< of the attempt, by module
};
std::ostream& operator<<(std::ostream& out, const Incident& incident);

/// One attempt at a step.
struct StepResult : StepStats {
  std::string state_hash_before, state_hash_after;  ///< with TrainerOptions::state_hash
  std::vector<int> left_out;                        ///< micro-batches that did not count
  std::vector<std::int64_t> rows_left_out;          ///< rows of the step's whole batch that did not count
  Headroom forward_headroom, backward_headroom;     ///< the op nearest to overflow, of its results and its gradients;
                                                    ///< on a GPU known of every 4th step (Telemetry::Looks::libraries)
  std::optional<Incident> incident;
  std::vector<std::string> notes;           ///< for people: a remedy that ended
  std::vector<Sign> signs;                  ///< of trouble ahead; of committed attempts only
  std::optional<double> attention_logits;   ///< largest product of queries and keys, where it is an op; every 4th step
  std::optional<double> attention_entropy;  ///< of the attention that spreads least, a share; every 4th step
  std::optional<double> update_rms;         ///< root mean square of what the update changed; every 50th step
  std::vector<ModuleHeadroom> headroom;     ///< by module, in steps that keep_headroom_every() names
  bool last = false;                        ///< the next attempt is one at another batch
  bool under_way = false;                   ///< it was sent to the device; finished() returns its result

  /// Whether the run goes on from an earlier checkpoint.
  bool went_back() const { return incident && incident->remedy.action == RemedyAction::kRollback; }
};

/// A checkpoint that a run may go back to.
struct RecoveryPoint {
  std::int64_t step = 0;
  std::string name{};
  StateDict state{};
};
/// Finds the best one of a step in (after, newest]; nothing when there is none.
using FindRecoveryPoint = std::function<std::optional<RecoveryPoint>(std::int64_t newest, std::int64_t after)>;

/// Takes the capsule of an incident in `step`, `attempt`.
using CapsuleSink = std::function<void(std::int64_t step, std::int64_t attempt, StateDict capsule)>;
/// What came out when a capsule was run again.
struct CapsuleReplay {
  bool same_bits = false;  ///< loss and gradients are those of the run that wrote it, to the bit
  Incident incident{};
};

struct TrainerOptions {
  Policy precision = Policy::fp32();
  std::optional<LossScaleOptions> loss_scale{};  ///< left out: dynamic or off, as the policy says
  std::optional<optim::Schedule> schedule{};     ///< left out: the optimizer's lr
  double clip_norm = 0;                          ///< > 0: gradients of a larger norm are scaled down to it
  double clip_value = 0;                         ///< > 0: each gradient is clamped to [-clip_value, clip_value]
  double clip_adaptive = 0;  ///< > 0: each unit's gradient is at most this times its weights (optim/clip.h)
  std::optional<optim::EmaOptions> ema{};
  std::int64_t accumulate = 1;  ///< batches per step that batches() reads
  std::int64_t steps = 0;       ///< batches() ends after this many committed updates; 0: never
  bool state_hash = false;
  bool telemetry = true;          ///< watch every step (headroom); off: only to measure what it costs
  OnNan on_nan = OnNan::kLadder;  ///< what an incident leads to
  LadderOptions ladder{};
  std::vector<std::string> inject{};  ///< fire drills: faults to plant, see amp/incident/fire_drill.h
  /// On a GPU: make ordinary steps as one recorded piece of work each (amp/step/step_recorder.h). For closures that do
  /// the same ops at every step and read nothing that changes but their batch and the model: they are run when a step
  /// is recorded, not at every step. Batches need state(), from_state() and to(), as io's have.
  bool record = false;
  /// With `record`: recorded steps that may be under way when step() returns, at most 8. Such a step's result says
  /// `under_way`. Closures are copied, and may be called after step() returned: what they refer to must live as long as
  /// the trainer. A step that does not commit costs the device the steps that were sent behind it; they are made again.
  std::int64_t ahead = 0;
};

/// Runs training steps as transactions: weights, moments, statistics, averages, counters, schedule, loss scale and data
/// cursor change together, or not at all (except that an abort lowers the scale and is counted).
///
/// The closure is the whole step's maths and reads data only through its argument, so that the same step can be run
/// again. A step whose scaled gradients overflow is tried again at a lower scale: that is ordinary. A NaN in backward
/// with a finite loss is tried at half the scale, and, when it stays, at the floor: finite there means the scale
/// explains it; otherwise the scale goes back to what it was.
///
/// Whatever else keeps a step from being committed is an incident. It is diagnosed by replay, and options.on_nan says
/// what follows. The ladder: a scale that fits; the ops to blame in f32 for a while; the samples to blame left out, now
/// and later; a bad micro-batch left out; the batch skipped; a checkpoint from before the trouble; a NumericError, with
/// everything as before the step. Each rung is taken only where a replay was finite with it, or where none can tell.
class Trainer {
 public:
  /// The runtime, model and optimizer must outlive the trainer. With a policy without masters the weights are stored in
  /// 16 bits from here on.
  Trainer(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options = {});
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Makes a loader's cursor part of the transaction and of the state. It has state(), load_state() and
  /// commit(batch.origin), as io::Loader; with quarantine(sample), samples can be left out for good. A cursor that
  /// load_state() found no loader for is handed to it now; throws DataError or CheckpointError when it belongs to other
  /// data.
  template <class Loader>
  void attach(Loader& loader) {
    DataHooks hooks{[&loader] { return loader.state(); },
                    [&loader](const StateDict& state) { loader.load_state(state); },
                    [&loader](const io::BatchOrigin& origin) { loader.commit(origin); }, nullptr};
    if constexpr (requires { loader.quarantine(std::int64_t{}); })
      hooks.quarantine = [&loader](std::int64_t sample) { loader.quarantine(sample); };
    attach_data(std::move(hooks));
  }

  /// `for (const auto& batch : trainer.batches(loader)) trainer.step(batch, closure);` until options.steps are
  /// committed.
  template <class Loader>
  auto batches(Loader& loader);

  /// One step. Returns when it is committed, or, with an incident, when its batch is skipped or the run went back to an
  /// earlier checkpoint: go on with the next batch then. With options.ahead it may return earlier; if an earlier step
  /// made the run go back, it returns the result of that step, and its own batch was not used. `closure(batch)` returns
  /// the loss, a mean over its batch: one element. A batch that has `origin` (io::BatchOrigin) and `without(rows)` can
  /// lose samples. When it returns or throws, no parameter of the model has a gradient: the step's gradients were
  /// multiplied by the loss scale.
  template <class Batch, class Maths>
  StepResult step(const Batch& batch, Maths&& closure) {
    return run_step(feed_of(std::span(&batch, 1), closure));
  }
  /// The same over several micro-batches of equal weight.
  template <class Batch, class Maths>
  StepResult step(const MicroBatches<Batch>& batches, Maths&& closure) {
    return run_step(feed_of(std::span(batches.parts), closure));
  }

  /// Lists what is risky about the step before it is taken, each with an input that makes it go wrong
  /// (amp/preflight/preflight.h). Costs about a step; of the run nothing changes.
  template <class Batch, class Maths>
  PreflightReport preflight(const Batch& batch, Maths&& closure) {
    settle();
    return run_preflight([&]() -> Variable { return closure(batch); });
  }

  /// How much memory a step over such a batch takes, from small ones that are not committed; nothing where samples
  /// cannot be left out of it. Of the run nothing changes.
  template <class Batch, class Maths>
  std::optional<MemoryForecast> forecast_memory(const Batch& batch, Maths&& closure) {
    settle();
    return run_forecast(feed_of(std::span(&batch, 1), closure));
  }
  template <class Batch, class Maths>
  std::optional<MemoryForecast> forecast_memory(const MicroBatches<Batch>& batches, Maths&& closure) {
    settle();
    return run_forecast(feed_of(std::span(batches.parts), closure));
  }

  /// Attempts that ended since the last call, in order; the latest 10,000 when nobody asks.
  std::vector<StepResult> finished();

  /// Waits for the steps that are under way; those that were not committed are made again, and all that step() may
  /// throw for them comes from here. Everything that reads or changes what steps change does this first.
  void settle() { settle_all(); }
  /// Whether so many updates are committed; waits only where that hangs on steps that are under way.
  bool has_made(std::int64_t steps);
  std::int64_t under_way() const { return static_cast<std::int64_t>(sent_.size()); }

  /// Runs `f` under the run's policy, without recording, in evaluation mode, on averaged weights where there are any,
  /// and returns what it returns. Training is as before afterwards, whatever f does.
  template <class F>
  decltype(auto) evaluate(F&& f) {
    settle();
    const EvaluationScope scope(*this);
    return std::forward<F>(f)();
  }
  /// Finds where an evaluation with a non-finite result went wrong: `again` repeats it while every op is checked.
  /// Returns the report and changes nothing else.
  Incident investigate_evaluation(const std::string& what, const std::function<void()>& again);
  /// Tells a plateau schedule a validation loss.
  void observe(double loss) {
    settle();
    schedule_.observe(loss);
  }
  /// Leaves the headroom of all modules in the results of steps that are multiples of this, where it is known; 0: in
  /// none.
  void keep_headroom_every(std::int64_t steps) { headroom_every_ = steps; }

  std::int64_t steps() const { return steps_; }  ///< known to be committed
  std::int64_t skipped() const { return skipped_; }
  double next_lr() const { return lr_of(steps_ + 1); }
  const TrainerOptions& options() const { return options_; }
  Device device() const { return runtime_.device(); }
  const Policy& policy() const { return options_.precision; }
  const Ladder& ladder() const { return ladder_; }
  /// Computes an op ("PATH/op") in f32 from the next step on, for as long as the ladder would.
  void promote(const std::string& target) {
    settle();
    ladder_.promote(target, steps_ + 1);
  }
  /// What a failed attempt needs to be run again elsewhere goes there: the state it began with, its batch, what came
  /// out. Only for batches that have state(). TrainingRun sets it.
  void set_capsule_sink(CapsuleSink sink) { capsule_sink_ = std::move(sink); }
  /// Runs the attempt of a capsule again and finds out where and why anew, as one made the same way: the trainer's
  /// model and options are those of the run that wrote it. Batch::from_state makes its batches. The trainer is left
  /// with the capsule's state. Throws CheckpointError when it is none, or another model's.
  template <class Batch, class Maths>
  CapsuleReplay replay(const StateDict& capsule, Maths&& closure) {
    std::vector<Batch> parts;
    for (const StateDict& part : load_capsule(capsule)) parts.push_back(Batch::from_state(part));
    return run_capsule(capsule, feed_of(std::span<const Batch>(parts), closure));
  }
  /// Where rollbacks go; without it there are none. TrainingRun sets it.
  void set_recovery(FindRecoveryPoint find) { find_recovery_point_ = std::move(find); }
  const LossScaler& scaler() const { return scaler_; }
  const optim::Schedule& schedule() const { return schedule_; }
  optim::Ema* ema() { return ema_ ? &*ema_ : nullptr; }
  const Telemetry& telemetry() const { return telemetry_; }  ///< of the last attempt
  FireDrill& drill() { return drill_; }
  void set_telemetry(bool on) {
    settle();
    options_.telemetry = on;
  }

  /// Everything that a bitwise resume needs, in the sections of a checkpoint: model, norm, optim, amp, sched, rng,
  /// data, progress. Tensors are copies.
  StateDict state();
  /// Continues from `state`; the data cursor waits for attach() if there is no loader yet. The options take precedence:
  /// a state with another precision, loss scale, schedule or batch, or with or without averages, is converted to them.
  /// Throws CheckpointError (another model, optimizer, seed) or DataError, and then changes nothing.
  void load_state(const StateDict& state);
  /// Settings that differed in the state that was loaded last: "precision bf16 -> fp16".
  const std::vector<std::string>& changes() const { return changes_; }
  /// amp::state_hash of the state as it is.
  std::string state_hash();

 private:
  struct DataHooks {
    std::function<StateDict()> state{};
    std::function<void(const StateDict&)> load_state{};
    std::function<void(const io::BatchOrigin&)> commit{};
    std::function<void(std::int64_t)> quarantine{};  // may be missing
  };
  class EvaluationScope {
   public:
    explicit EvaluationScope(Trainer& trainer);
    ~EvaluationScope();
    EvaluationScope(const EvaluationScope&) = delete;
    EvaluationScope& operator=(const EvaluationScope&) = delete;

   private:
    std::vector<std::pair<nn::Module*, bool>> modes_;  // parents before what is below them
    StepContext context_;
    NoGradGuard no_grad_;
    PolicyScope policy_;
    std::optional<optim::Ema::Scope> averages_;
    LentArenas lending_;
  };
  /// The parts, scale and policy of an attempt.
  struct Plan {
    std::vector<int> parts{};          // micro-batches that count
    std::vector<std::int64_t> rows{};  // of the step's whole batch that are left out, ascending
    std::int64_t rows_per_part = 0;    // 0: not known
    double scale = 1;
    Policy policy{};

    void leave_out(std::int64_t row);  // and its micro-batch, when that has no other
  };
  /// What an attempt took.
  struct StepCost {
    double seconds = 0;
    double bytes = 0;  // the most tensor memory that was handed out
  };
  struct Trial;
  /// A step under way.
  struct Sent {
    StepFeed feed{};
    StepState state{};
  };
  enum class Next { kAgain, kReturn, kStop };

  void attach_data(DataHooks data);
  PreflightReport run_preflight(const std::function<Variable()>& closure);

  // ---- trainer.cpp: one step
  StepResult run_step(const StepFeed& feed);
  enum class Recorded { kWherePossible, kNot };
  StepResult make_step(const StepFeed& feed, Recorded recorded);
  StepState attempt(const Plan& plan, const StepFeed& feed, TapeObserver* observer);
  void run_parts(StepState& state, const Plan& plan, const StepFeed& feed);
  AbortCause judge_forward(StepState& state, const Variable& loss);
  AbortCause run_part(StepState& state, int part, std::span<const std::int64_t> without, const StepFeed& feed);
  void judge_update(StepState& state);
  void write(const StepState& state);
  void account(const StepState& state, const Trial& trial, StepResult& result);
  void conclude(StepResult& result);
  double lr_of(std::int64_t step) const;
  void tell(const StepState& state, StepResult& result) const;
  void price();
  void abandon();
  void forget_gradients();

  // ---- trainer_signs.cpp: before a number goes bad
  void prevent();
  void measure_scale(const Trial& trial);
  std::optional<Telemetry> prove_signs(const Trial& trial);
  void watch_commit(const StepState& state, const Trial& trial, StepResult& result, const std::function<void()>& write);

  // ---- trainer_recorded.cpp: steps that a device makes by itself
  bool is_ordinary(const StepFeed& feed) const;
  StepState state_of(const StepFeed& feed, std::int64_t ahead) const;
  StepRecorder::Step recorded(const StepFeed& feed, const StepState& state) const;
  std::optional<StepResult> make_recorded(const StepFeed& feed);
  std::optional<StepResult> send_ahead(const StepFeed& feed);
  std::optional<StepResult> settle_oldest();
  std::optional<StepResult> settle_all();
  StepResult take_over(const StepFeed& feed, StepState state, const StepRecorder::Outcome& outcome);
  StepState attempt_with_room(const Plan& plan, const StepFeed& feed);

  // ---- memory_forecast.cpp
  std::optional<MemoryForecast> run_forecast(const StepFeed& feed);

  // ---- trainer_recovery.cpp: after an abort
  Next recover(const StepState& state, Trial& trial, StepResult& result);
  bool lower_scale(const StepState& state, Trial& trial, std::string& why);
  bool finite_at_floor(const Trial& trial);
  Diagnosis investigate(const StepState& state, Trial& trial);
  StepState replay(const StepState& failed, const Variant& variant, Trial& trial, TapeObserver* observer);
  StepState replay_with_earlier_weights(const Plan& plan, Trial& trial, TapeObserver* observer);
  Next climb(Incident& incident, const StepState& state, Trial& trial);
  bool to_fitting_scale(Incident& incident, const StepState& state, Trial& trial);
  bool promote_ops(Incident& incident, const StepState& state);
  bool quarantine(Incident& incident, Trial& trial);
  bool leave_out_micro_batch(Incident& incident, const StepState& state, Trial& trial);
  Next answer_spike(Incident& incident, Trial& trial);
  bool skip_batch(Incident& incident);
  bool roll_back(Incident& incident, Trial& trial);

  // ---- trainer_capsule.cpp
  /// Returns why there is no capsule, if one was wanted.
  std::string fill_capsule(const StepState& state, const Trial& trial, std::int64_t attempt) const;
  std::vector<StateDict> load_capsule(const StateDict& capsule);
  CapsuleReplay run_capsule(const StateDict& capsule, const StepFeed& feed);

  optim::StepInput step_input(const StepState& state) const;
  void check_overrides(const Variable& loss);

  // ---- trainer_state.cpp
  StateDict collect() const;
  void check_state(const StateDict& state) const;

  // ---- trainer_adapt.cpp
  StateDict fitting(const StateDict& saved) const;
  std::vector<std::string> changes_since(const StateDict& saved) const;

  Runtime& runtime_;
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
  LossScaler scaler_;
  optim::Schedule schedule_;
  std::optional<optim::Ema> ema_;
  DataHooks data_;
  StateDict waiting_cursor_;  // loaded before there was a loader
  std::vector<std::string> changes_;
  std::deque<StepResult> finished_;
  std::int64_t steps_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t attempts_ = 0;                    // at the step that is being made
  std::int64_t incidents_ = 0;                   // of it
  std::int64_t skips_ = 0;                       // batches it passed over
  StepCost cost_;                                // of the last committed attempt
  std::chrono::steady_clock::time_point begun_;  // the attempt that is made
  std::int64_t headroom_every_ = 0;
  bool overrides_checked_ = false;
  Ladder ladder_;
  FindRecoveryPoint find_recovery_point_;
  CapsuleSink capsule_sink_;
  Telemetry telemetry_;
  Signs signs_;
  SpikeGuard spikes_;
  FireDrill drill_;
  std::unique_ptr<StepRecorder> recorder_;
  std::deque<Sent> sent_;   // under way, oldest first
  bool first_run_ = false;  // the next run of the closure is the step's first attempt
};

template <class Loader>
auto Trainer::batches(Loader& loader) {
  attach(loader);
  return detail::BatchRange<Loader>(loader, options_.accumulate,
                                    [this] { return options_.steps == 0 || !has_made(options_.steps); });
}

}  // namespace binade::amp
