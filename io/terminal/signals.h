#pragma once

#include <csignal>
#include <map>

namespace binade::io {

/// Handles signals while the object exists. The first SIGTERM, SIGINT or SIGHUP makes stop_requested() true: the
/// training loop finishes its step, commits and exits 10. The second ends the process at once with exit 11; the last
/// commit stays intact. A SIGHUP that is ignored, as under nohup, stays ignored. SIGPIPE and SIGXFSZ are ignored, so
/// that a closed log or a file-size limit makes the write fail instead of killing the process. The destructor restores
/// the previous handlers. At most one object may exist.
///
/// A process that a launcher of ranks has started may get the same request three times: from the user, from the
/// launcher and from mpirun, as when a system service is stopped with all its processes. Therefore a signal counts as
/// the second one only if its sender has sent one before. All senders except the launcher and mpirun count as one
/// sender. The same holds for the child of a supervisor, because the supervisor passes signals on. Once such a process
/// was asked to stop, it keeps the handlers until it ends.
class StopSignals {
 public:
  /// Throws ArgumentError if another object exists.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool stop_requested();
  /// Returns the signal that requested the stop, or 0.
  static int signal_received();

  /// The environment variable that holds the process id of the launcher (run/launch.h) of this process.
  static constexpr const char* kLauncher = "BINADE_LAUNCHER";
  /// The value with which the launcher sends a signal (sigqueue) that ends the process at once.
  static constexpr int kAtOnce = 0xb1;
  /// Declares that the process `supervisor`, the parent of this one, passes on its signals (run/supervisor.h).
  static void set_supervisor(int supervisor);
  /// Returns the supervisor of this process; 0: there is none.
  static int supervisor();

 private:
  std::map<int, struct sigaction> before_;  // previous handlers by signal
};

}  // namespace binade::io
