#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "binade/io/terminal/signals.h"
#include "binade/run/fault_log.h"
#include "binade/run/rank_watch.h"
#include "binade/run/training_run.h"

namespace binade::amp {

// A training run over ranks (docs/ranks.md): rank 0 owns the run folder, evaluates, saves and decides when the run
// ends. It sends the others every change of their state between steps. Without other ranks, these functions do nothing.

/// Returns a function for Trainer::set_recovery() that gives every rank the checkpoint which `find` finds on rank 0.
FindRecoveryPoint recovery_from_rank_0(Communicator& ranks, FindRecoveryPoint find);
/// Returns a function for Trainer::set_pauses() that gives every rank the answer of rank 0.
std::function<bool(std::int64_t step)> pauses_from_rank_0(Communicator& ranks,
                                                          std::function<bool(std::int64_t step)> pauses);

/// A request to stop: a signal, and the ranks that have received it.
struct StopRequest {
  int signal = 0;
  std::vector<int> ranks{};  ///< empty without other ranks

  /// Returns "signal 15", or "signal 15 to rank 3".
  std::string text() const;
};

/// Rank 0 of a run.
class RunLeader {
 public:
  explicit RunLeader(Communicator& ranks) : ranks_(ranks) {}
  /// Tells the others that the run begins, or that it continues from a loaded state.
  void begun();
  void loaded(const StateDict& state);
  /// Tells the others about a validation loss (Trainer::observe()).
  void observed(double loss);
  /// Returns the signal that asked any rank to stop, or std::nullopt.
  std::optional<StopRequest> stop_requested();
  /// Throws RankError, on all ranks, if the states of the ranks differ, and names the first entry that differs. No
  /// checkpoint then contains a state that only one rank has.
  void compare_states(Trainer& trainer);
  /// Tells the others that another step follows, or that the run has ended.
  void goes_on(std::optional<RunEnd> end);

 private:
  Communicator& ranks_;
};

/// A rank other than 0: it follows the messages of rank 0. In the run folder it writes only its activity (RankWatch)
/// and the injected faults that have struck it.
class RunFollower {
 public:
  /// `folder`: the run folder, in which rank 0 writes.
  RunFollower(Trainer& trainer, std::string folder);
  ~RunFollower();
  RunFollower(const RunFollower&) = delete;
  RunFollower& operator=(const RunFollower&) = delete;

  /// Waits for rank 0 to open the run. Returns true if it has loaded a checkpoint.
  bool open();
  /// Waits until rank 0 decides whether the run continues. Returns true if it does.
  bool goes_on();
  /// Calls `step`. Returns the result of the last finished batch.
  StepResult record(const std::function<void()>& step);
  RunEnd end() const { return end_.value_or(RunEnd::kLeft); }

 private:
  Trainer& trainer_;
  std::string folder_;
  std::optional<RankWatch> watch_{};
  std::optional<FaultLog> fault_log_{};     // drills-rank-N.jsonl
  std::optional<io::StopSignals> signals_;  // rank 0 asks for them in stop_requested()
  std::optional<StopRequest> stop_{};
  std::optional<RunEnd> end_;
};

}  // namespace binade::amp
