#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace binade::amp {

/// A rank on this machine.
struct LaunchedProcess {
  pid_t id = 0;
  int rank = 0;
};

/// Returns the processes below `parent` that run the program with the path `program`, in the order of their ranks.
/// Processes that such a process has started are not included. Reads /proc.
std::vector<LaunchedProcess> processes_below(pid_t parent, const std::string& program);

/// Returns SIGTERM or SIGINT if this signal was sent to a process that blocks it, otherwise 0.
int pending_stop_of(pid_t process);

/// Returns the path of the program that a process runs, also if the file was replaced since; empty if the process has
/// ended or belongs to another user.
std::string program_of(pid_t process);

}  // namespace binade::amp
