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

/// The input of a captured step.
struct GraphStep {
  std::int64_t number = 0;         ///< number of the step
  std::string closure{};           ///< identifies the closure
  std::vector<StateDict> batch{};  ///< contents of each micro-batch
  /// Calls the closure with a batch at the addresses that the graph reads.
  std::function<Variable(int micro_batch, const StateDict& batch)> loss{};
  Policy policy{};
  double loss_scale = 1;
  /// Arguments of the update, one per optimizer. clip_factor is not used, because the device computes it.
  std::vector<optim::StepInput> inputs{};
  double clip_norm = 0;   ///< largest norm of the gradients; 0: no clipping
  double loss_bound = 0;  ///< the device does not commit a step with a larger loss (SpikeGuard::bound)
  bool telemetry = true;
  Telemetry::Probes probes{};
  /// True: runs without a commit; the caller then runs it eagerly and calls compare_with_eager()
  bool compare = false;
};
/// The result of a captured step.
struct DeviceOutcome {
  bool commits() const { return cause == RefusalCause::kNone; }
  RefusalCause cause = RefusalCause::kNone;  ///< kNone: the device committed the step; call Transaction::commit() next
  double loss = 0;
  optim::GradientScan scan{};
  std::vector<BlockExtremes> extremes{};  ///< the largest updated weight and moments of each parameter
};

/// Runs steps as captured graphs, on devices that support it (core/captured_graph.h): forward, backward, verdict,
/// update and commit are one submission, and the device decides about the commit (core/kernels/step.h). During the step
/// the host neither calls the closure nor waits. The host may submit further steps before it knows the result: if the
/// device does not commit a step, it does not commit the later ones either.
///
/// A graph is specialized to policy, closure, probes, and the batch's dtypes and shapes. The first step of a
/// specialization runs eagerly, so that libraries choose their algorithms. The next one runs without a commit, to
/// measure its memory, and is captured. The graph is validated if its result, without a commit, is bit-identical to
/// that of the same step run eagerly. Some later steps repeat this check, because a closure may read state that
/// changes. The eight most recently used specializations are kept.
///
/// All graphs share one arena. If one needs a larger arena, the others are dropped and captured again when needed.
/// Eager steps may borrow the arena (ArenaLoan); a captured step discards their gradients.
class StepGraphs {
 public:
  /// The arguments must outlive the graphs.
  StepGraphs(Transaction& transaction, AttemptRunner& runner);
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  /// Runs the step and sets `observed` to its telemetry. Returns std::nullopt if no graph can run it; the caller then
  /// runs it eagerly, as it does if the result is no commit. Throws what the closure throws.
  std::optional<DeviceOutcome> run(const GraphStep& step, Telemetry& observed);

  /// Maximum number of steps in flight.
  static constexpr std::size_t kMaxInFlight = 8;
  /// Submits the step after those in flight, without waiting. Returns false, and submits nothing, if there is no
  /// validated graph, or no proof that the update is finite: call run() when nothing is in flight. step.compare must be
  /// false.
  bool submit(const GraphStep& step);
  /// Waits for the oldest step in flight and returns its result. If it was not committed, discards the later ones.
  DeviceOutcome collect(Telemetry& observed);

  /// Call it after the commit of a step of another kind, such as one with phases, which may have updated only some of
  /// the parameters. The next step then runs eagerly: a captured update assumes that the same parameters have gradients
  /// as in the update before.
  void other_step_committed() { gradients_differ_ = true; }

  /// Compares the last run() with the result of the same step run eagerly. Validates the graph, or drops it.
  void compare_with_eager(double loss, const optim::GradientScan& scan);
  /// Drops all graphs. Call it after a change of weights or settings that were captured.
  void clear();
  /// True if any graph, which occupies memory, exists.
  bool holds_graphs() const;

  /// Returns the reasons, since the last call, why steps were not captured: one line per reason.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Specialization;
  struct Exchange;
  struct InFlight;
  /// Returns the specialization for a step; makes one if there is none.
  Specialization& specialization_of(const GraphStep& step);
  bool prepare(Specialization& graph, const GraphStep& step);
  bool clear_arena();
  void drop_smaller(const Specialization& graph, const MemoryTrace& trace);
  /// Makes all later steps of this specialization run eagerly, and notes the reason.
  void mark_unsupported(Specialization& graph, std::string_view why);
  void write_numbers(const Specialization& graph, const GraphStep& step, const optim::DeviceUpdate& update);
  /// Copies the batch to the addresses that the graph reads.
  void write_batch(Specialization& graph, const GraphStep& step) const;
  void launch(Specialization& graph, const GraphStep& step);
  void capture(Specialization& graph, const GraphStep& step, const Telemetry& observed);
  void replay(Specialization& graph, const GraphStep& step, optim::DeviceUpdate update);
  void discard_in_flight() noexcept;

  Transaction& transaction_;
  AttemptRunner& runner_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<InFlight> in_flight_;                               // oldest first
  std::vector<std::unique_ptr<Specialization>> specializations_;  // most recently used first
  std::optional<DeviceOutcome> to_compare_;                       // result of run() for compare_with_eager()
  bool gradients_differ_ = false;                                 // other_step_committed() was called
  bool arena_was_in_use_ = false;                                 // clear_arena() found it in use in the last step
  std::vector<std::string> notes_;
};

}  // namespace binade::amp
