#pragma once

#include <csignal>

namespace binade::io {

/// While one lives, the first SIGTERM, SIGINT or SIGHUP asks the training loop to stop (stop_requested() turns true,
/// and the loop finishes its step, commits and exits 10) and the second ends the process at once with exit 11: the last
/// commit is intact whatever it interrupts. A SIGHUP that is ignored, as under nohup, stays ignored. SIGPIPE and
/// SIGXFSZ are ignored, so that a closed log or a file-size limit makes the write fail and does not kill the process.
/// The destructor restores the previous handlers. One at a time.
class StopSignals {
 public:
  /// Throws ArgumentError when another one lives.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool stop_requested();
  /// The signal that asked, 0 before.
  static int signal_received();

 private:
  struct sigaction term_ {
  }, interrupt_{}, hangup_{}, pipe_{}, size_{};
};

}  // namespace binade::io
