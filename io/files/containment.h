#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace binade::io {

/// What a contained piece of work may use.
struct ContainmentLimits {
  std::uint64_t seconds = 10;                     ///< of processor time
  std::uint64_t wall_seconds = 120;               ///< wall-clock limit on the caller's waiting
  std::uint64_t memory = std::uint64_t{1} << 30;  ///< bytes of address space beyond what the process has already
};

/// Runs work that a hostile file may crash, hang or make greedy in a child process, and hands its findings over as a
/// stream of bytes: whatever happens in there, the caller gets data or a DataError.
///
/// It contains accidents in a library that reads a file; it is no prison for code that means harm. `work` runs in a
/// forked child: it may allocate, read files and call the library, must not start or wait for threads, and its changes
/// to memory are not seen here. The caller holds whatever lock keeps other threads out of the library.
class Containment {
 public:
  /// Called by the work to hand over bytes.
  using Send = std::function<void(const void* bytes, std::size_t count)>;

  /// `what` begins every error text. Throws OutOfMemoryError when there is no room for a process.
  Containment(std::string what, const ContainmentLimits& limits, const std::function<void(const Send&)>& work);
  ~Containment();  ///< ends the child
  Containment(const Containment&) = delete;
  Containment& operator=(const Containment&) = delete;

  /// Takes the next `count` bytes. Throws DataError with the text of what `work` threw, or saying how the child died.
  void take(void* to, std::size_t count);

 private:
  void wait_for_findings();
  [[noreturn]] void tell_end();

  std::string what_;
  std::uint64_t wall_seconds_;
  std::chrono::nanoseconds patience_;  // remaining part of wall_seconds_
  pid_t child_ = -1;
  int findings_ = -1;  // pipes to read from
  int complaint_ = -1;
};

}  // namespace binade::io
