#pragma once

#include <functional>
#include <string>

namespace binade::amp {

struct SupervisorOptions {
  std::string folder{};      ///< of the run; need not be there yet
  int deaths_at_a_step = 3;  ///< as many at the same step, of children that had begun or gone on, end the run
  int deaths_in_a_row = 10;  ///< as many without a new checkpoint end it
  double pause = 1;  ///< seconds before the first restart; twice as long after each death without a new checkpoint
  double longest_pause = 60;  ///< seconds
};

/// Runs `work` in a child process and, when that dies, again in a new one: what no process can heal in itself (a crash,
/// a kill, memory or a device that is gone) a fresh one that resumes from the newest verified checkpoint often can.
/// `life` counts from 0; from 1 on `work` is to go on with what the folder holds (TrainingRun::resume_if_possible()).
///
/// Started again are: a death by a signal, and the exit codes 24 (storage), 50 (memory), 51 (device), 70 (internal)
/// and, unless the supervisor itself was asked to stop, 10 and 11. Every other code means that a new process would come
/// to the same end. SIGTERM, SIGINT and SIGHUP are passed on. When the supervisor dies the child is asked to stop.
///
/// Every death is a line on stderr and in the run's events.jsonl. A run that is given up has a report in incidents/.
///
/// Call it while the process has one thread. In the child it returns what `work` returns, and what `work` throws goes
/// through it; in the parent it returns the last child's exit code, 70 where a signal killed it, and 10 where the
/// supervisor was asked to stop between two children. Throws OutOfMemoryError when there is no room for a process.
int supervise(const SupervisorOptions& options, const std::function<int(int life)>& work);

}  // namespace binade::amp
