#pragma once

#include <functional>
#include <string>

namespace binade::amp {

struct SupervisorOptions {
  std::string folder{};      ///< of the run; need not be there yet
  int deaths_at_a_step = 3;  ///< this many deaths at one step, of children that had begun or resumed, end the run
  int deaths_in_a_row = 10;  ///< this many deaths without a new checkpoint end the run
  double pause = 1;  ///< seconds before the first restart; twice as long after each death without a new checkpoint
  double longest_pause = 60;  ///< seconds
};

/// Runs `work` in a child process and, when that dies, again in a new one: a process cannot recover from a crash, a
/// kill, lack of memory or a lost device, but a fresh one that resumes from the newest verified checkpoint often can.
/// `life` counts from 0; from 1 on `work` is to go on with what the folder holds (TrainingRun::resume_if_possible()).
///
/// A child is restarted after a death by a signal, and after the exit codes 24 (storage), 50 (memory), 51 (device), 70
/// (internal) and, unless the supervisor itself was asked to stop, 10 and 11. Every other code means that a new process
/// would end in the same way. SIGTERM, SIGINT and SIGHUP are passed to the child. When the supervisor dies, the child
/// gets SIGTERM.
///
/// Every death is reported in a line on stderr and in the run's events.jsonl. If the supervisor gives a run up, it
/// writes a report to incidents/.
///
/// Call it while the process has one thread. In the child it returns the result of `work` and lets its exceptions
/// through. In the parent it returns the last child's exit code, 70 if a signal killed that child, or 10 if the
/// supervisor was asked to stop between two children. Throws OutOfMemoryError when there is no room for a process.
int supervise(const SupervisorOptions& options, const std::function<int(int life)>& work);

}  // namespace binade::amp
