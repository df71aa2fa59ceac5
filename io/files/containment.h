#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace binade::io {

/// Limits on the resources of contained work.
struct ContainmentLimits {
  std::uint64_t seconds = 10;                     ///< processor time of the child, in seconds
  std::uint64_t wall_seconds = 120;               ///< longest wait of the caller, in seconds of wall-clock time
  std::uint64_t memory = std::uint64_t{1} << 30;  ///< bytes of address space beyond the process's current use
};

/// Runs work in a child process, because a hostile file may make it crash, hang or use too much memory. Returns the
/// output of the work as a stream of bytes. In every case the caller gets data or a DataError.
///
/// It contains faults of a library that reads a file; it is not a sandbox against malicious code. `work` runs in a
/// forked child: it may allocate, read files and call the library, but must not start or wait for threads, and its
/// changes to memory have no effect in the parent. The caller holds any lock that keeps other threads out of the
/// library.
class Containment {
 public:
  /// Called by the work to send bytes to the parent.
  using Send = std::function<void(const void* bytes, std::size_t count)>;

  /// Starts `work` in a child process. Every error text begins with `what`. Throws OutOfMemoryError if no process can
  /// be created.
  Containment(std::string what, const ContainmentLimits& limits, const std::function<void(const Send&)>& work);
  ~Containment();  ///< kills the child
  Containment(const Containment&) = delete;
  Containment& operator=(const Containment&) = delete;

  /// Receives the next `count` bytes. Throws DataError with the text of the exception that `work` threw, or with the
  /// cause of the child's death.
  void take(void* to, std::size_t count);

 private:
  void wait_for_data();
  [[noreturn]] void throw_child_error();

  std::string what_;  // the beginning of every error text
  std::uint64_t wall_seconds_;
  std::chrono::nanoseconds time_left_;  // remaining part of wall_seconds_
  pid_t child_ = -1;
  int data_ = -1;  // read ends of the two pipes from the child
  int error_ = -1;
};

}  // namespace binade::io
