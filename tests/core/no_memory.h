#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace binade::test {

/// False under sanitizers, whose allocators ignore the system's limits: forbid_memory() then has no effect, and the
/// code under test runs with memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryCanRunOut = false;
#else
constexpr bool kMemoryCanRunOut = true;
#endif

/// From now on the system gives this process no more memory. malloc can still return memory that the process freed
/// before, but not in a thread that allocates for the first time.
inline void forbid_memory() {
  if (!kMemoryCanRunOut) return;
  const rlimit least{1, RLIM_INFINITY};  // not 0: with an infinite hard limit, Linux reads 0 as "no limit"
  setrlimit(RLIMIT_DATA, &least);
}

/// Calls forbid_memory() and allocates all memory that the heap has left.
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

/// Runs `body` in a forked child and returns its result; -1 if a signal ended the child.
template <class Body>
int exit_status_of(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Like exit_status_of(), but runs `body` in a new thread that has no memory from its beginning.
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
  // If memory cannot run out, the thread runs in this process: ThreadSanitizer does not support threads that start in a
  // forked child.
  return kMemoryCanRunOut ? exit_status_of(in_a_thread) : in_a_thread();
}

}  // namespace binade::test
