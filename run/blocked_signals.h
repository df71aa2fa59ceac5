#pragma once

#include <time.h>

#include <algorithm>
#include <cmath>
#include <csignal>

namespace binade::amp {

/// Blocks the signals that a parent process waits for, so that only wait() receives them: SIGCHLD, SIGTERM, SIGINT and
/// SIGHUP. Does not block an ignored SIGHUP (the process may run under nohup): it would arrive in wait() if it were
/// blocked. Make it before the process has threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    ::sigemptyset(&blocked_);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&blocked_, signal);
    struct sigaction hangup {};
    ::sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) ::sigaddset(&blocked_, SIGHUP);
    ::sigprocmask(SIG_BLOCK, &blocked_, &before_);
  }
  ~BlockedSignals() { release(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// Restores the signal mask of before; a child process calls it too.
  void release() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  /// Returns the next signal, or 0 after `seconds`.
  int wait(double seconds) {
    timespec limit{};
    limit.tv_sec = static_cast<time_t>(seconds);
    limit.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
    return std::max(0, ::sigtimedwait(&blocked_, nullptr, &limit));
  }
  /// True if the signal asks the process to stop.
  static bool stops(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }

 private:
  sigset_t blocked_{}, before_{};
};

}  // namespace binade::amp
