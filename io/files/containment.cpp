#include "binade/io/files/containment.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>

#include "binade/core/error.h"
#include "binade/io/files/file_ops.h"

namespace binade::io {
namespace {

constexpr std::size_t kLongestError = 2048;  // bytes; fits into any pipe buffer, so that the child never blocks
constexpr int kFailed = 1;

bool write_pipe(int file, const void* bytes, std::size_t count) {
  return write_all(FileOps::real(), file, {static_cast<const std::byte*>(bytes), count}) == 0;
}

/// Lowers a soft limit of this process.
void lower_limit(int resource, std::uint64_t value) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(value, now.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &now);
}

/// Returns the bytes of address space in use, or 0 if unknown.
std::uint64_t address_space() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  const bool read = std::fscanf(file, "%llu", &pages) == 1;
  std::fclose(file);
  return read ? pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

void confine(const ContainmentLimits& limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT, SIGPIPE, SIGXCPU})
    std::signal(signal, SIG_DFL);
  lower_limit(RLIMIT_CORE, 0);
  lower_limit(RLIMIT_CPU, limits.seconds);
  // Sanitizers reserve terabytes of address space, so that the limit would be meaningless.
  constexpr std::uint64_t kPlausible = std::uint64_t{1} << 40;
  if (const std::uint64_t used = address_space(); used > 0 && used < kPlausible)
    lower_limit(RLIMIT_AS, used + limits.memory);
}

/// Runs `work` in the forked child. Ends by _exit(), which skips the parent's exit handlers.
[[noreturn]] void run_child(const ContainmentLimits& limits, const std::function<void(const Containment::Send&)>& work,
                            int data, int errors) {
  confine(limits);
  int code = 0;
  const auto fail = [&](const char* text) {
    write_pipe(errors, text, std::min(std::strlen(text), kLongestError));
    code = kFailed;
  };
  try {
    work([data](const void* bytes, std::size_t count) {
      if (!write_pipe(data, bytes, count)) ::_exit(0);  // the parent has closed the pipe
    });
  } catch (const std::bad_alloc&) {
    fail("reading it takes more memory than a file of its size may need");
  } catch (const std::exception& error) {
    fail(error.what());
  }
  ::_exit(code);
}

}  // namespace

Containment::Containment(std::string what, const ContainmentLimits& limits,
                         const std::function<void(const Send&)>& work)
    : what_(std::move(what)),
      wall_seconds_(limits.wall_seconds),
      time_left_(std::chrono::seconds(limits.wall_seconds)) {
  std::array<int, 2> data{-1, -1}, errors{-1, -1};
  bool ready = ::pipe2(data.data(), O_CLOEXEC) == 0 && ::pipe2(errors.data(), O_CLOEXEC) == 0;
  if (ready) {
    FileOps::real();  // initialized before the fork, because write_pipe() uses it in the child
    child_ = ::fork();
    if (child_ == 0) run_child(limits, work, data[1], errors[1]);
    ready = child_ > 0;
  }
  const int reason = errno;
  for (const int file : {data[1], errors[1]})
    if (file >= 0) ::close(file);
  data_ = data[0];
  error_ = errors[0];
  if (ready) return;
  for (const int file : {data_, error_})
    if (file >= 0) ::close(file);
  throw OutOfMemoryError(fmt::format("{}: no process to read it in: {}", what_, std::strerror(reason)));
}

Containment::~Containment() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(data_);
  ::close(error_);
}

void Containment::take(void* to, std::size_t count) {
  auto* at = static_cast<char*>(to);
  while (count > 0) {
    wait_for_data();
    const ssize_t got = ::read(data_, at, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw_child_error();
    at += got;
    count -= static_cast<std::size_t>(got);
  }
}

/// Waits until the child has sent data or has ended. Throws DataError if all waits together exceed wall_seconds_; the
/// caller's time between two calls of take() does not count.
void Containment::wait_for_data() {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time_left_ - (Clock::now() - begin));
    check<DataError>(left.count() > 0, "{}: reading it was stopped after {} s without progress; does its disk respond?",
                     what_, wall_seconds_);
    pollfd data{.fd = data_, .events = POLLIN, .revents = 0};
    const auto limit = std::min<std::int64_t>(left.count(), std::numeric_limits<int>::max());
    if (::poll(&data, 1, static_cast<int>(limit)) > 0) break;
  }
  time_left_ -= Clock::now() - begin;
}

void Containment::throw_child_error() {
  std::array<char, kLongestError> text{};
  std::size_t length = 0;
  for (ssize_t got = 1; got != 0 && length < text.size();) {
    got = ::read(error_, text.data() + length, text.size() - length);
    if (got > 0) length += static_cast<std::size_t>(got);
    if (got < 0 && errno != EINTR) break;
  }
  int status = 0;
  pid_t ended = 0;
  do ended = ::waitpid(child_, &status, 0);
  while (ended < 0 && errno == EINTR);
  child_ = -1;
  if (length > 0) throw DataError(std::string(text.data(), length));
  if (ended > 0 && WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
    throw DataError(what_ + ": reading it did not end in time; it is damaged");
  if (ended > 0 && WIFSIGNALED(status))
    throw DataError(
        fmt::format("{}: the library that reads it crashed (signal {}); it is damaged", what_, WTERMSIG(status)));
  throw DataError(what_ + ": it is shorter than its header says");
}

}  // namespace binade::io
