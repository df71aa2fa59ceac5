#pragma once

#include <string>
#include <vector>

namespace binade::amp {

/// Runs this program again as `ranks` processes on this machine, by mpirun, with the same arguments followed by `more`.
/// Adds the flags that the installed MPI needs: for more ranks than cores, for root, and against pinning.
///
/// This process stays as the parent of mpirun. Returns the exit code of mpirun, which is that of the ranks, or 128 + N
/// if signal N killed mpirun. SIGTERM, SIGINT and SIGHUP to this process, and SIGTERM and SIGINT to mpirun, go to rank
/// 0, so that all ranks end as one process does (io/terminal/signals.h): they finish the step, save, and end with exit
/// code 10. A second signal to this process ends all ranks at once, with exit code 11; after 10 s, remaining processes
/// are killed. Signals from a supervisor are counted separately, because a service manager signals both processes
/// (run/supervisor.h). If this process is killed, mpirun stops the ranks. The ranks have no standard input.
///
/// Call it before the process starts another thread. Throws ArgumentError if there is no mpirun or it cannot be
/// started. $BINADE_MPIRUN names another mpirun.
int launch_ranks(int ranks, const std::vector<std::string>& more = {});

/// Returns the command line without the program: {"mpirun", "-n", "4", …}. `version`: the output of `mpirun --version`.
std::vector<std::string> mpirun_command(const std::string& mpirun, const std::string& version, int ranks);

}  // namespace binade::amp
