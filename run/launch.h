#pragma once

#include <string>
#include <vector>

namespace binade::amp {

/// Runs this program again as `ranks` processes of this machine, by mpirun: with the same arguments, and `more` after
/// them. Finds the flags that the installed MPI needs here: for more ranks than cores, for root, against pinning.
///
/// Replaces this process by mpirun, whose exit code is that of the processes; returns only by an exception. Throws
/// ArgumentError if there is no mpirun or it cannot be started. $BINADE_MPIRUN names another mpirun.
[[noreturn]] void launch_ranks(int ranks, const std::vector<std::string>& more = {});

/// Returns the command line without the program: {"mpirun", "-n", "4", …}. `version`: the output of `mpirun --version`.
std::vector<std::string> mpirun_command(const std::string& mpirun, const std::string& version, int ranks);

}  // namespace binade::amp
