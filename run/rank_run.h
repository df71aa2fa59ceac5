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
// ends. It tells the others what changes their state between steps. Alone, all of this does nothing.

/// Returns a function for Trainer::set_recovery() that gives every rank the checkpoint which `find` finds on rank 0.
FindRecoveryPoint shared_recovery(Communicator& ranks, FindRecoveryPoint find);
/// Returns a function for Trainer::set_pauses() that gives every rank the answer of rank 0.
std::function<bool(std::int64_t step)> shared_pauses(Communicator& ranks,
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
  /// Tells the others that the run begins, or that it goes on from a loaded state.
  void begun();
  void loaded(const StateDict& state);
  /// Tells the others about a validation loss (Trainer::observe()).
  void observed(double loss);
  /// Returns the signal that has asked any rank to stop, if one has.
  std::optional<StopRequest> stop_requested();
  /// Throws RankError, on all ranks, if the states of the ranks differ, with the first entry that does. A checkpoint is
  /// then never of a state that only one rank has.
  void compare_states(Trainer& trainer);
  /// Tells the others that another step follows, or that the run has ended.
  void goes_on(std::optional<RunEnd> end);

 private:
  Communicator& ranks_;
};

/// Another rank of a run: it does what rank 0 says. In the run folder it writes only what it does (RankWatch) and which
/// injected faults have struck it.
class RunFollower {
 public:
  /// `folder`: the run folder, in which rank 0 writes.
  RunFollower(Trainer& trainer, std::string folder);
  ~RunFollower();
  RunFollower(const RunFollower&) = delete;
  RunFollower& operator=(const RunFollower&) = delete;

  /// Waits for rank 0 to open the run. Returns true if it has loaded a checkpoint.
  bool open();
  /// Waits until rank 0 decides if the run goes on.
  bool goes_on();
  /// Calls `step`. Returns the result of the last finished batch.
  StepResult record(const std::function<void()>& step);
  RunEnd end() const { return end_.value_or(RunEnd::kDone); }

 private:
  Trainer& trainer_;
  std::string folder_;
  std::optional<RankWatch> watch_{};
  std::optional<FaultLog> fault_log_{};     // drills-rank-N.jsonl
  std::optional<io::StopSignals> signals_;  // rank 0 hears of them in stop_requested()
  std::optional<StopRequest> stop_{};
  std::optional<RunEnd> end_;
};

}  // namespace binade::amp
