#pragma once

#include <csignal>
#include <map>

namespace binade::io {

/// Handles signals while the object exists. The first SIGTERM, SIGINT or SIGHUP makes stop_requested() true: the
/// training loop finishes its step, commits and exits 10. The second ends the process at once with exit 11; the last
/// commit stays intact. A SIGHUP that is ignored, as under nohup, stays ignored. SIGPIPE and SIGXFSZ are ignored, so
/// that a closed log or a file-size limit makes the write fail instead of killing the process. The destructor restores
/// the previous handlers. At most one object may exist.
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

 private:
  std::map<int, struct sigaction> before_;  // previous handlers by signal
};

}  // namespace binade::io
