#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/captured_graph.h"
#include "binade/core/kernels/step.h"
#include "binade/core/memory_plan.h"
#include "binade/core/state_dict.h"
#include "binade/optim/device_updates.h"

namespace binade::amp {

class AttemptRunner;
class Transaction;

/// A step for StepRecorder to run.
struct RecordedStep {
  std::int64_t number = 0;
  std::string closure{};           ///< names the closure
  std::vector<StateDict> batch{};  ///< of each micro-batch
  /// The closure on a batch that lies at the addresses that the graph reads.
  std::function<Variable(int micro_batch, const StateDict& batch)> loss{};
  Policy policy{};
  double loss_scale = 1;
  optim::StepInput input{};  ///< the device computes clip_factor
  double clip_norm = 0;
  double loss_bound = 0;
  bool telemetry = true;
  Telemetry::Probes probes{};
  bool compare = false;  ///< run it without committing, for ran_eagerly(): the caller runs it eagerly
};
/// The device's verdict and its numbers.
struct DeviceOutcome {
  bool commits() const { return cause == Undecided::kNone; }
  Undecided cause = Undecided::kNone;  ///< kNone: committed in the device's memory; Transaction::commit() comes next
  double loss = 0;
  optim::GradientScan scan{};
  std::vector<BlockExtremes> extremes{};
};

/// Runs steps as captured graphs on a device that captures (core/captured_graph.h): forward, backward, verdict, update
/// and commits are one submission, and the device decides the commit by itself (core/kernels/step.h). The host neither
/// runs the closure nor waits within the step, and may submit further steps before it knows the outcome: if the device
/// does not commit a step, it does not commit those behind it either.
///
/// A graph is specialized to dtypes and shapes of the batch, policy, closure and probes. The first step of a
/// specialization runs eagerly, so that libraries choose their algorithms. The next is rehearsed, to learn how much
/// memory it takes, and captured. The graph is validated when a step that it runs without committing has the bits of
/// the same step run eagerly. Now and then that is checked again, since a closure may read something that changes
/// unnoticed. The eight specializations used last are kept.
///
/// All graphs share one arena: if one needs a larger arena, the others are captured again when they are needed. Eager
/// steps may allocate there too (ArenaLoan); a captured step drops the gradients that the last one left.
class StepRecorder {
 public:
  /// Both must outlive the recorder.
  StepRecorder(Transaction& transaction, AttemptRunner& runner);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// Runs the step. Returns nothing if no graph can run it yet; the caller runs it eagerly then, as it does if the
  /// outcome is no commit. `observed` receives telemetry. Throws what the closure throws.
  std::optional<DeviceOutcome> run(const RecordedStep& step, Telemetry& observed);

  /// Steps that can be in flight at once.
  static constexpr std::size_t kMostInFlight = 8;
  /// Submits the step behind those in flight, without waiting. Returns false, and submits nothing, if there is no
  /// validated graph for it, or no proof that its update is finite: run() is for it, when nothing is in flight. A step
  /// in flight is not compared; its loss_scale, input and loss_bound are those of its step number.
  bool submit(const RecordedStep& step);
  /// Waits for the oldest step in flight. If it was not committed, nothing is in flight any more.
  DeviceOutcome collect(Telemetry& observed);

  /// Compares the step of the last run() with the same step run eagerly. A graph that differs is not used any more.
  void ran_eagerly(double loss, const optim::GradientScan& scan);
  /// Drops all graphs: weights or settings that they were captured with have changed.
  void forget();
  /// Whether any graph is held, with its memory.
  bool holds_graphs() const;

  /// Why steps are not captured, a line each, since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Specialization;
  struct Exchange;
  struct InFlight;
  Specialization& specialization_of(const RecordedStep& step);
  bool prepare(Specialization& graph, const RecordedStep& step);
  bool clear_arena();
  void drop_smaller(const Specialization& graph, const MemoryTrace& trace);
  void give_up(Specialization& graph, std::string_view why);
  void write_numbers(const Specialization& graph, const RecordedStep& step, const optim::DeviceUpdate& update);
  void write_batch(Specialization& graph, const RecordedStep& step) const;
  void launch(Specialization& graph, const RecordedStep& step);
  void capture(Specialization& graph, const RecordedStep& step, const Telemetry& observed);
  void replay(Specialization& graph, const RecordedStep& step, optim::DeviceUpdate update);
  void discard_in_flight() noexcept;

  Transaction& transaction_;
  AttemptRunner& runner_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<InFlight> in_flight_;                               // oldest first
  std::vector<std::unique_ptr<Specialization>> specializations_;  // the one used last comes first
  std::optional<DeviceOutcome> to_compare_;                       // of the specialization used last
  bool arena_was_in_use_ = false;                                 // at the last step
  std::vector<std::string> notes_;
};

}  // namespace binade::amp
