#include "binade/io/terminal/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "binade/core/error.h"

namespace binade::io {

namespace {

constexpr int kNotCommitted = 11;

std::atomic<int> received{0};
std::atomic<unsigned> senders{0};        // senders of signals so far: a set of the bits below
std::atomic<int> launcher{0};            // process id; 0: none
std::atomic<int> supervising_parent{0};  // process id; 0: none
std::atomic<bool> installed{false};
static_assert(std::atomic<int>::is_always_lock_free, "the handler may not wait");

constexpr unsigned kAnybody = 1, kLauncherItself = 2, kParent = 4;

/// Returns the sender of a signal. The parent of a rank is mpirun, which signals its ranks when it is stopped.
unsigned sender_of(const siginfo_t& info) {
  const int starter = launcher.load(std::memory_order_relaxed),
            above = supervising_parent.load(std::memory_order_relaxed);
  if (info.si_code > 0) return kAnybody;  // the kernel
  if (above != 0 && info.si_pid == above) return kParent;
  if (starter == 0) return kAnybody;
  if (info.si_pid == starter) return kLauncherItself;
  return info.si_pid == ::getppid() ? kParent : kAnybody;
}

/// Handles the signals that request a stop. Calls only functions that POSIX allows in a signal handler.
void on_stop(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  const unsigned sender = sender_of(*info);
  const bool at_once = sender == kLauncherItself && info->si_code == SI_QUEUE &&
                       info->si_value.sival_int == StopSignals::kAtOnce;
  int none = 0;
  received.compare_exchange_strong(none, signal);
  if (at_once || (senders.fetch_or(sender) & sender) != 0) {
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

struct sigaction stop_action() {
  struct sigaction action {};
  action.sa_sigaction = on_stop;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  return action;
}

/// Returns the process id of the launcher that has started this process; 0: none has.
int launcher_of_process() {
  const char* text = std::getenv(StopSignals::kLauncher);
  int id = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), id);
  return id;
}

}  // namespace

StopSignals::StopSignals() {
  check<ArgumentError>(!installed.exchange(true), "stop signals: wanted one StopSignals at a time, got a second");
  received = 0;
  senders = 0;
  launcher = launcher_of_process();
  const struct sigaction stop = stop_action(), ignore = action_of(SIG_IGN);
  for (const int signal : {SIGTERM, SIGINT}) ::sigaction(signal, &stop, &before_[signal]);
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaction(signal, &ignore, &before_[signal]);
  ::sigaction(SIGHUP, nullptr, &before_[SIGHUP]);
  if (before_[SIGHUP].sa_handler != SIG_IGN) ::sigaction(SIGHUP, &stop, nullptr);
}

StopSignals::~StopSignals() {
  // The launcher or the supervisor may pass a request on after this process has received it in another way.
  const bool keeps = (launcher != 0 || supervising_parent != 0) && received != 0;
  for (const auto& [signal, action] : before_)
    if (!keeps || signal == SIGPIPE || signal == SIGXFSZ) ::sigaction(signal, &action, nullptr);
  installed = false;
}

void StopSignals::set_supervisor(int supervisor) { supervising_parent = supervisor; }
int StopSignals::supervisor() { return supervising_parent; }

bool StopSignals::stop_requested() { return received.load(std::memory_order_relaxed) != 0; }
int StopSignals::signal_received() { return received.load(std::memory_order_relaxed); }

}  // namespace binade::io
