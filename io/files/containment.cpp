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

namespace binade::io {
namespace {

constexpr std::size_t kLongestComplaint = 2048;  // fits any pipe, so that the child never waits for a reader
constexpr int kComplained = 1;

bool write_all(int file, const void* bytes, std::size_t count) {
  const auto* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(file, at, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    count -= static_cast<std::size_t>(written);
  }
  return true;
}

void lower(int resource, std::uint64_t value) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(value, now.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &now);
}

/// Bytes of address space in use; 0 when the system does not say.
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
  lower(RLIMIT_CORE, 0);
  lower(RLIMIT_CPU, limits.seconds);
  // Sanitizers map terabytes that they never touch; there the limit would mean nothing.
  constexpr std::uint64_t kPlausible = std::uint64_t{1} << 40;
  if (const std::uint64_t used = address_space(); used > 0 && used < kPlausible) lower(RLIMIT_AS, used + limits.memory);
}

/// The child's whole life after the fork. Leaves by _exit: what the parent registered to run at its end is not ours.
[[noreturn]] void live(const ContainmentLimits& limits, const std::function<void(const Containment::Send&)>& work,
                       int findings, int complaint) {
  confine(limits);
  int code = 0;
  const auto complain = [&](const char* text) {
    write_all(complaint, text, std::min(std::strlen(text), kLongestComplaint));
    code = kComplained;
  };
  try {
    work([findings](const void* bytes, std::size_t count) {
      if (!write_all(findings, bytes, count)) ::_exit(0);  // nobody listens any more
    });
  } catch (const std::bad_alloc&) {
    complain("reading it takes more memory than such a file may need");
  } catch (const std::exception& error) {
    complain(error.what());
  }
  ::_exit(code);
}

}  // namespace

Containment::Containment(std::string what, const ContainmentLimits& limits,
                         const std::function<void(const Send&)>& work)
    : what_(std::move(what)), wall_seconds_(limits.wall_seconds), patience_(std::chrono::seconds(limits.wall_seconds)) {
  std::array<int, 2> findings{-1, -1}, complaint{-1, -1};
  bool ready = ::pipe2(findings.data(), O_CLOEXEC) == 0 && ::pipe2(complaint.data(), O_CLOEXEC) == 0;
  if (ready) {
    child_ = ::fork();
    if (child_ == 0) live(limits, work, findings[1], complaint[1]);
    ready = child_ > 0;
  }
  const int reason = errno;
  for (const int file : {findings[1], complaint[1]})
    if (file >= 0) ::close(file);
  findings_ = findings[0];
  complaint_ = complaint[0];
  if (ready) return;
  for (const int file : {findings_, complaint_})
    if (file >= 0) ::close(file);
  throw OutOfMemoryError(fmt::format("{}: no process to read it in: {}", what_, std::strerror(reason)));
}

Containment::~Containment() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(findings_);
  ::close(complaint_);
}

void Containment::take(void* to, std::size_t count) {
  auto* at = static_cast<char*>(to);
  while (count > 0) {
    wait_for_findings();
    const ssize_t got = ::read(findings_, at, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) tell_end();
    at += got;
    count -= static_cast<std::size_t>(got);
  }
}

/// Only the time spent in here counts, not the time that the caller spends between two findings.
void Containment::wait_for_findings() {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(patience_ - (Clock::now() - begin));
    check<DataError>(left.count() > 0,
                     "{}: reading it waits for something and is given up after {} s; is it on a disk that answers?",
                     what_, wall_seconds_);
    pollfd findings{.fd = findings_, .events = POLLIN, .revents = 0};
    const auto limit = std::min<std::int64_t>(left.count(), std::numeric_limits<int>::max());
    if (::poll(&findings, 1, static_cast<int>(limit)) > 0) break;
  }
  patience_ -= Clock::now() - begin;
}

void Containment::tell_end() {
  std::array<char, kLongestComplaint> text{};
  std::size_t length = 0;
  for (ssize_t got = 1; got != 0 && length < text.size();) {
    got = ::read(complaint_, text.data() + length, text.size() - length);
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
    throw DataError(what_ + ": reading it does not come to an end; it is damaged");
  if (ended > 0 && WIFSIGNALED(status))
    throw DataError(
        fmt::format("{}: the library that reads it died of it (signal {}); it is damaged", what_, WTERMSIG(status)));
  throw DataError(what_ + ": it ends before what it promises");
}

}  // namespace binade::io
