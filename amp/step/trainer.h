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
#include "binade/amp/step/memory_forecast.h"
#include "binade/amp/step/options.h"
#include "binade/amp/step/step_feed.h"
#include "binade/amp/step/step_result.h"

namespace binade {
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
class FaultInjection;
class LossScaler;
class Remedies;
class RemediationPolicy;
class StepRecorder;
class Telemetry;
class Transaction;
struct Attempt;
struct DeviceOutcome;
struct RecordedStep;
struct Trial;

/// Runs training steps as transactions: weights, moments, statistics, averages, counters, schedule, loss scale and data
/// cursor change together, or not at all (except that an abort lowers the scale and is counted).
///
/// The closure computes the loss of the whole step and reads data only through its argument, so that the same step can
/// be run again. If the scaled gradients of a step overflow, the step is tried again at a lower scale: that is
/// ordinary. A NaN in backward with a finite loss is tried at half the scale, and, if it stays, at the floor: finite
/// there means the scale explains it; otherwise the scale goes back to its former value.
///
/// Whatever else keeps a step from being committed is an incident. It is diagnosed by replay, and options.on_nan says
/// what follows. The remedies, the cheapest first: a scale that fits; the ops to blame in f32 for a while; the samples
/// to blame left out, now and later; a bad micro-batch left out; the batch skipped; a checkpoint from before the
/// trouble; a NumericError, with everything as before the step. A remedy is applied only if a replay was finite with
/// it, or if no replay can tell.
class Trainer {
 public:
  /// The runtime, model and optimizer must outlive the trainer. With a policy without masters the weights are stored in
  /// 16 bits from here on.
  Trainer(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Makes a loader's cursor part of the transaction and of the state. It has state(), load_state() and
  /// commit(batch.origin), as io::Loader; with quarantine(sample), samples can be left out for good. A cursor that
  /// load_state() found no loader for is handed to it now; throws DataError or CheckpointError if it belongs to other
  /// data.
  template <class Loader>
  void attach(Loader& loader) {
    std::function<void(std::int64_t)> quarantine;
    if constexpr (requires { loader.quarantine(std::int64_t{}); })
      quarantine = [&loader](std::int64_t sample) { loader.quarantine(sample); };
    attach_data([&loader] { return loader.state(); }, [&loader](const StateDict& state) { loader.load_state(state); },
                [&loader](const io::BatchOrigin& origin) { loader.commit(origin); }, std::move(quarantine));
  }

  /// `for (const auto& batch : trainer.batches(loader)) trainer.step(batch, closure);` until options.steps are
  /// committed.
  template <class Loader>
  auto batches(Loader& loader) {
    attach(loader);
    return detail::BatchRange<Loader>(loader, options_.accumulate,
                                      [this] { return options_.steps == 0 || !has_made(options_.steps); });
  }

  /// One step. Returns when it is committed, or, with an incident, when its batch is skipped or the run went back to an
  /// earlier checkpoint: go on with the next batch then. With options.ahead it may return earlier; if an earlier step
  /// made the run go back, it returns the result of that step, and its own batch was not used. `closure(batch)` returns
  /// the loss, a mean over its batch: one element. A batch that has `origin` (io::BatchOrigin) and `without(rows)` can
  /// lose samples. When it returns or throws, no parameter of the model has a gradient: the step's gradients were
  /// multiplied by the loss scale.
  template <class Batch, class Closure>
  StepResult step(const Batch& batch, Closure&& closure) {
    return run_step(feed_of(std::span(&batch, 1), closure));
  }
  /// The same over several micro-batches of equal weight.
  template <class Batch, class Closure>
  StepResult step(const MicroBatches<Batch>& batches, Closure&& closure) {
    return run_step(feed_of(std::span(batches.batches), closure));
  }

  /// Lists the risks of the step before it is taken, each with an input that makes it go wrong
  /// (amp/preflight/preflight.h). Costs about a step; the run does not change.
  template <class Batch, class Closure>
  PreflightReport preflight(const Batch& batch, Closure&& closure) {
    return run_preflight([&]() -> Variable { return closure(batch); });
  }

  /// How much memory a step over such a batch takes, from small ones that are not committed; nothing if samples cannot
  /// be left out of it. The run does not change.
  template <class Batch, class Closure>
  std::optional<MemoryForecast> forecast_memory(const Batch& batch, Closure&& closure) {
    return run_forecast(feed_of(std::span(&batch, 1), closure));
  }
  template <class Batch, class Closure>
  std::optional<MemoryForecast> forecast_memory(const MicroBatches<Batch>& batches, Closure&& closure) {
    return run_forecast(feed_of(std::span(batches.batches), closure));
  }

  /// Attempts that ended since the last call, one by one and in order (`earlier` is empty); the latest 10,000 if nobody
  /// asks.
  std::vector<StepResult> finished();

  /// Waits for the steps in flight; those that were not committed run again, and all that step() may throw for them
  /// comes from here. Everything that reads or changes the state of the run does this first.
  void synchronize() { collect_all(); }
  [[deprecated("use synchronize()")]] void settle() { synchronize(); }
  std::int64_t in_flight() const { return static_cast<std::int64_t>(in_flight_.size()); }
  [[deprecated("use in_flight()")]] std::int64_t under_way() const { return in_flight(); }
  /// Whether so many updates are committed; waits only if that depends on steps in flight.
  bool has_made(std::int64_t steps);

  /// Runs `f` under the run's policy, without gradients, in evaluation mode, on averaged weights if there are any, and
  /// returns its result. Training is as before afterwards, whatever f does.
  template <class F>
  decltype(auto) evaluate(F&& f) {
    const std::shared_ptr<const void> scope = evaluation_scope();
    return std::forward<F>(f)();
  }
  /// Finds where an evaluation with a non-finite result went wrong: `again` repeats it while every op is checked.
  /// Returns the report and changes nothing else.
  Incident investigate_evaluation(const std::string& what, const std::function<void()>& again);
  /// Gives a plateau schedule a validation loss.
  void observe(double loss);
  /// Puts the headroom of all modules into the results of steps that are multiples of this, if it is known; 0: of none.
  void keep_headroom_every(std::int64_t steps) { headroom_every_ = steps; }

  std::int64_t steps() const;  ///< known to be committed
  std::int64_t skipped() const;
  double next_lr() const;
  const TrainerOptions& options() const { return options_; }
  Device device() const;
  const Policy& policy() const { return options_.precision; }
  const RemediationPolicy& remediation() const;
  [[deprecated("use remediation()")]] const RemediationPolicy& ladder() const { return remediation(); }
  /// Computes an op ("PATH/op") in f32 from the next step on, for as long as a remedy would.
  void promote(const std::string& target);
  /// Receives a repro bundle of each failed attempt: the state it began with, its batch, its outcome. Only for batches
  /// that have state(). TrainingRun sets it.
  void set_repro_sink(ReproSink sink);
  [[deprecated("use set_repro_sink()")]] void set_capsule_sink(ReproSink sink) { set_repro_sink(std::move(sink)); }
  /// Runs the attempt of a repro bundle again and diagnoses it anew, as one made the same way: the trainer's model and
  /// options are those of the run that wrote it. Batch::from_state makes its batches. The trainer is left with the
  /// bundle's state. Throws CheckpointError if it is no repro bundle, or another model's.
  template <class Batch, class Closure>
  ReproReplay replay(const StateDict& bundle, Closure&& closure) {
    std::vector<Batch> batches;
    for (const StateDict& one : begin_replay(bundle)) batches.push_back(Batch::from_state(one));
    return run_replay(bundle, feed_of(std::span<const Batch>(batches), closure));
  }
  /// Where rollbacks go; without it there are none. TrainingRun sets it.
  void set_recovery(FindRecoveryPoint find);
  const LossScaler& scaler() const;
  const optim::Schedule& schedule() const;
  optim::Ema* ema();
  const Telemetry& telemetry() const { return *telemetry_; }  ///< of the last attempt
  FaultInjection& faults() { return *faults_; }
  [[deprecated("use faults()")]] FaultInjection& drill() { return faults(); }
  void set_telemetry(bool on);

  /// Everything that a bitwise resume needs, in the sections of a checkpoint: model, norm, optim, amp, sched, rng,
  /// data, progress. Tensors are copies.
  StateDict state();
  /// Continues from `state`; the data cursor waits for attach() if there is no loader yet. The options take precedence:
  /// a state with another precision, loss scale, schedule or batch, or with or without averages, is converted to them.
  /// Throws CheckpointError (another model, optimizer, seed) or DataError, and then changes nothing.
  void load_state(const StateDict& state);
  /// Settings that differed in the state that was loaded last: "precision bf16 -> fp16".
  const std::vector<std::string>& changes() const;
  /// amp::state_hash of the state as it is.
  std::string state_hash();

 private:
  struct Submitted;
  /// The cost of the last committed attempt, and when the present one began.
  struct Cost {
    double seconds = 0;
    double bytes = 0;  // the most tensor memory that was handed out
    std::chrono::steady_clock::time_point begun{};
  };
  enum class Recorded { kIfPossible, kNot };

  void attach_data(std::function<StateDict()> state, std::function<void(const StateDict&)> load_state,
                   std::function<void(const io::BatchOrigin&)> commit, std::function<void(std::int64_t)> quarantine);

  // ---- one step
  StepResult run_step(const StepFeed& feed);
  StepResult make_step(const StepFeed& feed, Recorded recorded);
  Attempt run_attempt(Trial& trial);
  void report(const Attempt& attempt, StepResult& result) const;
  void commit(const Attempt& attempt, const Trial& trial, StepResult& result, std::span<const BlockExtremes> written);
  void measure_cost();
  void conclude(StepResult& result);
  StepResult with_earlier(StepResult last, std::size_t attempts) const;
  void measure_scale(const Trial& trial);
  std::optional<Telemetry> prove_warnings(const Trial& trial);

  // ---- captured steps
  bool can_be_recorded(const StepFeed& feed) const;
  Attempt attempt_at(const StepFeed& feed, std::int64_t ahead) const;
  RecordedStep recorded_step(const StepFeed& feed, const Attempt& attempt) const;
  std::optional<StepResult> make_recorded(const StepFeed& feed);
  StepResult take_over(const StepFeed& feed, Attempt attempt, const DeviceOutcome& outcome);
  std::optional<StepResult> submit(const StepFeed& feed);
  std::optional<StepResult> collect_oldest();
  std::optional<StepResult> collect_all();

  // ---- beside steps
  Trial trial_of(const StepFeed& feed) const;
  PreflightReport run_preflight(const std::function<Variable()>& closure);
  std::optional<MemoryForecast> run_forecast(const StepFeed& feed);
  std::shared_ptr<const void> evaluation_scope();
  std::vector<StateDict> begin_replay(const StateDict& bundle);
  ReproReplay run_replay(const StateDict& bundle, const StepFeed& feed);

  TrainerOptions options_;
  std::unique_ptr<FaultInjection> faults_;
  std::unique_ptr<Transaction> transaction_;
  std::unique_ptr<AttemptRunner> runner_;
  std::unique_ptr<Remedies> remedies_;
  std::unique_ptr<StepRecorder> recorder_;
  std::unique_ptr<Telemetry> telemetry_;
  std::deque<std::unique_ptr<Submitted>> in_flight_;  // oldest first
  std::deque<StepResult> finished_;
  Cost cost_;
  std::int64_t headroom_every_ = 0;
};

}  // namespace binade::amp
