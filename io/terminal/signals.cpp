#include "binade/io/terminal/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "binade/core/error.h"

namespace binade::io {

namespace {

constexpr int kNotCommitted = 11;

std::atomic<int> received{0};
std::atomic<bool> installed{false};
static_assert(std::atomic<int>::is_always_lock_free, "the handler may not wait");

/// Handles the signals that request a stop. Calls only functions that POSIX allows in a signal handler.
void on_stop(int signal) {
  const int saved = errno;
  int none = 0;
  if (!received.compare_exchange_strong(none, signal)) {
    constexpr char kText[] = "\nstopped at once by a second signal; the last commit is intact\n";
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText, sizeof(kText) - 1);
    ::_exit(kNotCommitted);
  }
  errno = saved;
}

struct sigaction action_of(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  return action;
}

}  // namespace

StopSignals::StopSignals() {
  check<ArgumentError>(!installed.exchange(true), "stop signals: wanted one StopSignals at a time, got a second");
  received = 0;
  const struct sigaction stop = action_of(on_stop), ignore = action_of(SIG_IGN);
  for (const int signal : {SIGTERM, SIGINT}) ::sigaction(signal, &stop, &before_[signal]);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaction(signal, &ignore, &before_[signal]);
  ::sigaction(SIGHUP, nullptr, &before_[SIGHUP]);
  if (before_[SIGHUP].sa_handler != SIG_IGN) ::sigaction(SIGHUP, &stop, nullptr);
}

StopSignals::~StopSignals() {
  for (const auto& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
  installed = false;
}

bool StopSignals::stop_requested() { return received.load(std::memory_order_relaxed) != 0; }
int StopSignals::signal_received() { return received.load(std::memory_order_relaxed); }

}  // namespace binade::io
