#pragma once

#include <time.h>

#include <algorithm>
#include <cmath>
#include <csignal>

namespace binade::amp {

/// Blocks the signals that a parent process waits for, so that only wait() receives them: SIGCHLD, SIGTERM, SIGINT and
/// SIGHUP. Does not block an ignored SIGHUP (the process may run under nohup): it would arrive in wait() if it were
/// blocked. If SIGCHLD is ignored (inherited from the parent process), resets it to its default, because the system
/// would otherwise discard the exit codes of children. Create the object before the process has threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    ::sigemptyset(&blocked_);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&blocked_, signal);
    struct sigaction hangup {};
    ::sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) ::sigaddset(&blocked_, SIGHUP);
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &standard, &of_children_);
    ::sigprocmask(SIG_BLOCK, &blocked_, &before_);
  }
  ~BlockedSignals() {
    release();
    ::sigaction(SIGCHLD, &of_children_, nullptr);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// Restores the previous signal mask; a child process calls it too.
  void release() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  /// Returns the next signal, or 0 after `seconds`. Then sender() is the process that has sent it; 0: the system.
  int wait(double seconds) {
    timespec limit{};
    limit.tv_sec = static_cast<time_t>(seconds);
    limit.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
    siginfo_t info{};
    const int signal = std::max(0, ::sigtimedwait(&blocked_, &info, &limit));
    sender_ = signal != 0 && info.si_code <= 0 ? info.si_pid : 0;
    return signal;
  }
  pid_t sender() const { return sender_; }
  /// True if the signal asks the process to stop.
  static bool stops(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }

 private:
  sigset_t blocked_{}, before_{};
  struct sigaction of_children_ {};  // previous action of SIGCHLD
  pid_t sender_ = 0;
};

}  // namespace binade::amp
