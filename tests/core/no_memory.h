#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace binade::test {

/// The sanitizers' allocators do not answer to the system's limits: under them forbid_memory() forbids nothing, and
/// what is tested runs with memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryCanRunOut = false;
#else
constexpr bool kMemoryCanRunOut = true;
#endif

/// From here on the system gives this process no memory. What the heap has left it goes on giving, but not to a thread
/// that asks for the first time.
inline void forbid_memory() {
  if (!kMemoryCanRunOut) return;
  const rlimit least{1, RLIM_INFINITY};  // Linux takes 0 for no limit when the hard one is none
  setrlimit(RLIMIT_DATA, &least);
}

/// Forbids memory and uses up what the heap has left.
inline void take_all_memory() {
  forbid_memory();
  if (!kMemoryCanRunOut) return;
  for (std::size_t size = 1 << 20; size > 1024; size /= 2)
    while (std::malloc(size) != nullptr) {
    }
  for (std::size_t size = 1024; size > 0; size -= 8)
    while (std::malloc(size) != nullptr) {
    }
}

/// What `body` returns in a forked child; -1 when a signal ends that.
template <class Body>
int exit_status_of(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The same of a body that runs in a thread of its own, from whose beginning there is no memory at all.
template <class Body>
int exit_status_without_memory(Body body) {
  const auto in_a_thread = [&] {
    std::atomic<bool> taken = false;
    int result = 1;
    std::thread thread([&] {
      while (!taken) std::this_thread::yield();
      result = body();
    });
    take_all_memory();
    taken = true;
    thread.join();
    return result;
  };
  // A thread that begins in a forked child is not known to ThreadSanitizer; and where memory cannot run out there is
  // nothing to contain.
  return kMemoryCanRunOut ? exit_status_of(in_a_thread) : in_a_thread();
}

}  // namespace binade::test
