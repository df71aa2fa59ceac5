#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Data that an op has no result for (a target that is no class, an index outside a table) is found by a kernel, when
/// the host has gone on. The kernel notes the first place and leaves NaN; the next time the host waits for the device
/// it throws the DataError that the CPU throws at once.
namespace binade {

/// Data that an op has no result for, as a kernel found it.
struct Fault {
  std::uint64_t call = 0;  ///< the number that the call was given
  std::int64_t position = 0, value = 0;
};

/// The words of such an error, from where the bad value lies and what it is.
using Describe = std::function<std::string(std::int64_t position, std::int64_t value)>;

/// A number for a call that may meet bad data. The words of the last 1,024 are kept.
std::uint64_t number_call(Describe describe);

/// The numbers of the calls that a recording makes. Their words are kept as long as it lives: its kernels bring the
/// same numbers at each run.
class RecordedCalls {
 public:
  RecordedCalls() = default;
  ~RecordedCalls();
  RecordedCalls(const RecordedCalls&) = delete;
  RecordedCalls& operator=(const RecordedCalls&) = delete;

  /// While one lives, number_call() on this thread numbers calls of the recording.
  class Scope {
   public:
    explicit Scope(RecordedCalls& calls);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

 private:
  friend std::uint64_t number_call(Describe describe);
  std::vector<std::uint64_t> numbers_;
};

/// What `fault` is in words.
std::string describe(const Fault& fault);

}  // namespace binade
