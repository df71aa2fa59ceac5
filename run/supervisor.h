#pragma once

#include <functional>
#include <string>

namespace binade::amp {

/// Settings of supervise().
struct SupervisorOptions {
  std::string folder{};       ///< run folder; need not exist yet
  int deaths_at_a_step = 3;   ///< give up after so many deaths at one step (of children that had begun or resumed)
  int deaths_in_a_row = 10;   ///< give up after so many deaths in a row without a new checkpoint
  double pause = 1;           ///< seconds before a restart; doubles with each death without a new checkpoint
  double longest_pause = 60;  ///< longest pause before a restart, in seconds
  /// Called in the parent before each start of a child, with the number of deaths since the last new checkpoint. May be
  /// empty.
  std::function<void(int deaths)> before_start{};
};

/// Runs `work` in a child process, and restarts it in a new one when the child dies: a process cannot recover from a
/// crash, a kill, lack of memory or a lost device, but a new one that resumes from the newest verified checkpoint often
/// can. `life` counts the starts from 0; from 1 on, `work` must resume (TrainingRun::resume_if_possible()).
///
/// Restarts the child after a death by a signal, after the exit codes 24 (storage), 50 (memory), 51 (device), 52 (a
/// rank) and 70 (internal), and after 10 and 11 (stopped by a signal) unless the supervisor itself was asked to stop.
/// Does not restart it after any other exit code, because a new process would end in the same way. Passes SIGTERM,
/// SIGINT and SIGHUP to the child, which counts a signal to itself and the same one from the supervisor as one
/// (StopSignals). If the supervisor dies, the child gets SIGTERM.
///
/// Reports each death on stderr and in the run's events.jsonl. If the supervisor gives up, it writes a report to
/// incidents/.
///
/// Call it before the process starts another thread. In the child, returns the result of `work`, or throws its
/// exception. In the parent, returns the last child's exit code, 70 if a signal killed that child, or 10 if the
/// supervisor was asked to stop between two children. Throws OutOfMemoryError if no process can be created.
int supervise(const SupervisorOptions& options, const std::function<int(int life)>& work);

}  // namespace binade::amp
