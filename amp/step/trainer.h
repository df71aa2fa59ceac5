#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/preflight/finding.h"
#include "binade/amp/step/options.h"
#include "binade/amp/step/step_feed.h"
#include "binade/amp/step/step_result.h"

namespace binade {
class ExclusiveUse;
struct BlockExtremes;
namespace nn {
class Module;
}
namespace optim {
class Ema;
class Optimizer;
}  // namespace optim
}  // namespace binade

namespace binade::amp {

class AttemptRunner;
class Callback;
class FaultInjection;
class LossScaler;
class Remedies;
class RemediationPolicy;
class SpikeReview;
class StepGraphs;
class Telemetry;
class TrainingRun;
class Transaction;
struct Attempt;
struct DeviceOutcome;
struct GraphStep;
struct OngoingStep;
enum class SpikeVerdict : std::uint8_t;

/// Runs training steps as transactions: weights, moments, statistics, averages, counters, schedule, loss scale and data
/// cursor change together, or not at all (except that an abort lowers the scale and is counted).
///
/// The closure computes the loss and reads data only through its argument, so that a step can run again. If scaled
/// gradients overflow, the step is retried at a lower scale, which is ordinary. If gradients are NaN and the loss is
/// finite, the step is retried at half the scale and then at the floor; if the NaN persists, the scale is restored.
///
/// Any other reason not to commit is an incident. Replays find the cause; options.on_nan selects the reaction. The
/// remedies, cheapest first: Binade's own kernels in place of a faulty library plan; a loss scale that fits; the ops to
/// blame in f32 for a while; the samples to blame left out, now and later; averages mended; a bad micro-batch left out;
/// the batch skipped; a rollback to an earlier checkpoint; a NumericError (a DataError if the closure threw one), with
/// the state from before the step. A remedy is applied only if a replay with it was finite, or if no replay can tell.
///
/// A trainer serves one thread at a time. A call of any of its functions while another thread is inside of one throws
/// an ArgumentError that names both and changes nothing (docs/threads.md). Any thread may call steps(), skipped(),
/// in_flight() and device() at any time; also options() and policy(), but not while set_telemetry() or
/// set_verify_every() runs.
class Trainer {
 public:
  /// Runtime, model and optimizer must outlive the trainer. Converts the weights to 16 bits if the policy has no master
  /// weights.
  Trainer(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options = {});
  /// For a model whose parameters are divided among several optimizers, such as Muon for matrices and AdamW for the
  /// rest.
  Trainer(Runtime& runtime, nn::Module& model, std::vector<NamedOptimizer> optimizers, TrainerOptions options = {});
  /// For several models and optimizers, such as a generator and its discriminator. A step may then have phases
  /// (amp::Phases): all of its updates are committed, or none. Steps with phases are not captured.
  Trainer(Runtime& runtime, std::vector<NamedModel> models, std::vector<NamedOptimizer> optimizers,
          TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Makes a loader's cursor part of the transaction and of the state. The loader has state(), load_state() and
  /// commit(batch.origin), as io::Loader; if it has quarantine(sample), samples can be left out permanently. Loads the
  /// cursor of an earlier load_state(); throws DataError or CheckpointError if that cursor belongs to other data.
  template <class Loader>
  void attach(Loader& loader) {
    if constexpr (detail::LoaderType<Loader>::kFits) {
      std::function<void(std::int64_t)> quarantine;
      if constexpr (requires { loader.quarantine(std::int64_t{}); })
        quarantine = [&loader](std::int64_t sample) { loader.quarantine(sample); };
      attach_data([&loader] { return loader.state(); }, [&loader](const StateDict& state) { loader.load_state(state); },
                  [&loader](const io::BatchOrigin& origin) { loader.commit(origin); }, std::move(quarantine));
    }
  }

  /// `for (const auto& batch : trainer.batches(loader)) trainer.step(batch, closure);` until options.steps are
  /// committed.
  template <class Loader>
  auto batches(Loader& loader) {
    attach(loader);
    return detail::BatchRange<Loader>(
        loader, options_.accumulate, [this] { return options_.steps == 0 || !has_committed(options_.steps); },
        [this] { return share_of_step(); });
  }

  /// Runs one step. Returns when the step is committed or, with an incident, when its batch was skipped or the run
  /// rolled back; continue with the next batch then. A batch with an absurd loss waits for the next call, which makes
  /// its step or skips it. With options.ahead it may return earlier; if an earlier step made the run roll back, it
  /// returns that step's result and does not use its own batch. `closure(batch)` returns the mean loss over the batch,
  /// one element, from which backward computes the gradients for all optimizers; amp::Phases in place of the closure
  /// makes a step of several losses. Samples can be left out of a batch that has `origin` (io::BatchOrigin) and
  /// `without(rows)`. Until the next step, Variable::grad() of a parameter that the last phase trained is the gradient
  /// of the mean loss, without loss scale and before clip_norm or clip_value.
  template <class Batch, class Closure>
  StepResult step(const Batch& batch, Closure&& closure) {
    return run_step(feed_of(std::span(&batch, 1), closure));
  }
  /// Runs one step over several micro-batches of equal weight.
  template <class Batch, class Closure>
  StepResult step(const MicroBatches<Batch>& batches, Closure&& closure) {
    return run_step(feed_of(batches, closure));
  }
  /// Returns the micro-batches of a step of batches() that this rank computes.
  MicroBatchRange share_of_step() const;
  Communicator& ranks() const { return *options_.ranks; }  ///< TrainerOptions::ranks

  /// Lists the numerical risks of the next step, with inputs that make it fail (amp/preflight/preflight.h). Takes about
  /// as long as a step. Does not change the run.
  template <class Batch, class Closure>
  PreflightReport preflight(const Batch& batch, Closure&& closure) {
    return run_preflight(feed_of(std::span(&batch, 1), closure));
  }

  /// Estimates the memory of a step over such a batch from smaller steps that are not committed. Returns std::nullopt
  /// if samples cannot be left out of the batch. With several ranks: the memory of this rank. Does not change the run.
  template <class Batch, class Closure>
  std::optional<MemoryForecast> forecast_memory(const Batch& batch, Closure&& closure) {
    return run_forecast(feed_of(std::span(&batch, 1), closure));
  }
  template <class Batch, class Closure>
  std::optional<MemoryForecast> forecast_memory(const MicroBatches<Batch>& batches, Closure&& closure) {
    return run_forecast(feed_of(batches, closure));
  }

  /// Returns the attempts that ended since the last call, in order and with empty `earlier`; at most the latest 10,000.
  std::vector<StepResult> finished();

  /// Waits for the steps in flight, and runs those again that were not committed. Throws the errors that step() throws.
  /// All functions that read or change the state of the run call this first.
  void synchronize();
  [[deprecated("use synchronize()")]] void settle() { synchronize(); }
  std::int64_t in_flight() const;
  [[deprecated("use in_flight()")]] std::int64_t under_way() const { return in_flight(); }
  /// True if at least `steps` updates are committed. Synchronizes only if that depends on steps in flight.
  bool has_committed(std::int64_t steps);
  [[deprecated("use has_committed()")]] bool has_made(std::int64_t steps) { return has_committed(steps); }

  /// Calls `f` under the run's policy, without gradients, in evaluation mode, with averaged weights if there are any,
  /// and returns its result. Restores everything afterwards.
  template <class F>
  decltype(auto) evaluate(F&& f) {
    const std::shared_ptr<const void> scope = evaluation_scope();
    return std::forward<F>(f)();
  }
  /// Diagnoses an evaluation whose result is not finite: repeats it by calling `again`, and checks every op. `what`
  /// describes the result in the report. Changes nothing.
  Incident investigate_evaluation(const std::string& what, const std::function<void()>& again);
  /// Calls the object's functions before and after each step, and makes its state a part of the trainer's. It must
  /// outlive the trainer. If a loaded state contains that of the callback, it is loaded. Throws ArgumentError if the
  /// name is taken, or if steps were committed since such a state was loaded.
  void add_callback(Callback& callback);
  /// Passes a validation loss to a plateau schedule.
  void observe(double loss);
  /// Sets StepResult::headroom in every `steps`-th step, if it is known; 0: never.
  void keep_headroom_every(std::int64_t steps);

  /// `pauses_after(step)` returns true if the program needs the state right after this step, for example to save it. A
  /// call of step() may run two steps, if an earlier batch waits because of an absurd loss. If `pauses_after` is true
  /// for the first of them, or it is step options.steps, the call runs only this one, and its own batch waits for the
  /// next call.
  void set_pauses(std::function<bool(std::int64_t step)> pauses_after);

  std::int64_t steps() const;    ///< number of committed steps, without those in flight
  std::int64_t skipped() const;  ///< number of aborted attempts
  double next_lr() const;        ///< learning rate of the first optimizer in the next step
  const TrainerOptions& options() const { return options_; }
  Device device() const;
  const Policy& policy() const { return options_.precision; }
  const RemediationPolicy& remediation() const;
  [[deprecated("use remediation()")]] const RemediationPolicy& ladder() const { return remediation(); }
  /// Computes an op ("PATH/op") in f32 from the next step on, for RemediationOptions::promoted_steps steps.
  void promote(const std::string& target);
  /// Sets the receiver of repro bundles, which hold the state before a failed attempt, its batch and its result.
  /// Requires batches with state(). TrainingRun sets it.
  void set_repro_sink(ReproSink sink);
  [[deprecated("use set_repro_sink()")]] void set_capsule_sink(ReproSink sink) { set_repro_sink(std::move(sink)); }
  /// Runs the attempt of a repro bundle again and diagnoses it. Model and options must be those of the run that wrote
  /// it. Batch::from_state() makes the batches. Leaves the trainer in the bundle's state. Throws CheckpointError if
  /// `bundle` is no repro bundle, or comes from another model.
  template <class Batch, class Closure>
  ReproReplay replay(const StateDict& bundle, Closure&& closure) {
    std::vector<Batch> batches;
    return run_replay(bundle, [&](const std::vector<StateDict>& contents) {
      for (const StateDict& one : contents) batches.push_back(Batch::from_state(one));
      return feed_of(std::span<const Batch>(batches), closure);
    });
  }
  /// Sets the function that finds checkpoints for rollbacks; without it, the trainer never rolls back. TrainingRun sets
  /// it.
  void set_recovery(FindRecoveryPoint find);
  const LossScaler& scaler() const;
  const optim::Schedule& schedule() const;  ///< schedule of the first optimizer
  optim::Ema* ema();                        ///< averaged weights of the first optimizer; null if there are none
  const Telemetry& telemetry() const;       ///< telemetry of the last attempt
  FaultInjection& faults();
  [[deprecated("use faults()")]] FaultInjection& drill() { return faults(); }
  void set_telemetry(bool on);
  void set_verify_every(std::int64_t steps);  ///< replaces TrainerOptions::verify_every

  /// Returns everything that a bitwise resume needs, in the sections of a checkpoint: model, norm, optim, amp, sched,
  /// rng, data, progress. Tensors are copies.
  StateDict state();
  /// Continues from `state`; without a loader, the data cursor waits for attach(). The options take precedence: a state
  /// with another precision, loss scale, schedule or batch size, or with or without averages, is converted. Throws
  /// CheckpointError (another model, optimizer or seed) or DataError, and then changes nothing.
  void load_state(const StateDict& state);
  /// Returns the settings that differed in the last loaded state: "precision bf16 -> fp16".
  const std::vector<std::string>& changes() const;
  /// Returns amp::state_hash() of the current state.
  std::string state_hash();

 private:
  friend class TrainingRun;
  Trainer(Runtime& runtime, const Participants& participants, TrainerOptions options);
  ExclusiveUse& use() const;  ///< claimed by each call
  struct Submitted;           ///< a step in flight
  /// Cost of the last committed attempt, and the start of the current one.
  struct Cost {
    double seconds = 0;
    double bytes = 0;  // peak tensor memory
    std::chrono::steady_clock::time_point start{};
  };
  enum class GraphUse { kIfPossible, kNever };

  void attach_data(std::function<StateDict()> state, std::function<void(const StateDict&)> load_state,
                   std::function<void(const io::BatchOrigin&)> commit, std::function<void(std::int64_t)> quarantine);

  // ---- one step
  StepResult run_step(const StepFeed& feed);
  StepResult take_batch(const StepFeed& feed, GraphUse graph_use);
  std::optional<StepResult> make_waiting_step(const StepFeed& next);
  StepResult make_step(const StepFeed& feed, GraphUse graph_use, SpikeVerdict spike = {});
  Attempt run_attempt(OngoingStep& ongoing);
  void report(const Attempt& attempt, StepResult& result) const;
  void commit(const Attempt& attempt, const OngoingStep& ongoing, StepResult& result,
              std::span<const BlockExtremes> written);
  void measure_cost();
  void conclude(StepResult& result);
  StepResult with_earlier(StepResult last, std::size_t attempts) const;

  // ---- captured steps
  bool verifies(std::int64_t step) const { return options_.verify_every > 0 && step % options_.verify_every == 0; }
  bool can_run_as_graph(const StepFeed& feed) const;
  GraphStep graph_step(const StepFeed& feed, const Attempt& attempt) const;
  std::optional<StepResult> run_as_graph(const StepFeed& feed);
  StepResult complete(const StepFeed& feed, Attempt attempt, const DeviceOutcome& outcome);
  std::optional<StepResult> submit(const StepFeed& feed);
  std::optional<StepResult> collect_oldest();
  std::optional<StepResult> collect_all();

  // ---- other
  OngoingStep ongoing_step(const StepFeed& feed) const;
  PreflightReport run_preflight(const StepFeed& feed);
  std::optional<MemoryForecast> run_forecast(const StepFeed& feed);
  std::shared_ptr<const void> evaluation_scope();
  ReproReplay run_replay(const StateDict& bundle,
                         const std::function<StepFeed(const std::vector<StateDict>& batches)>& make_feed);

  TrainerOptions options_;
  std::unique_ptr<FaultInjection> faults_;
  std::unique_ptr<Transaction> transaction_;
  std::unique_ptr<AttemptRunner> runner_;
  std::unique_ptr<Remedies> remedies_;
  std::unique_ptr<SpikeReview> review_;
  std::unique_ptr<StepGraphs> graphs_;
  std::unique_ptr<Telemetry> telemetry_;
  std::deque<std::unique_ptr<Submitted>> in_flight_;  // oldest first
  std::deque<StepResult> finished_;
  Cost cost_;
  std::int64_t headroom_every_ = 0;
  std::function<bool(std::int64_t step)> pauses_after_;
};

}  // namespace binade::amp
