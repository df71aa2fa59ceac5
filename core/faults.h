#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/core/scope.h"

/// Data that an op has no result for (a target outside the classes, an index outside a table) is found on a GPU by a
/// kernel, after the host has gone on. The kernel stores NaN and records the first such position. When the host next
/// waits for the device, it throws the DataError that the CPU throws at once.
namespace binade {

/// Invalid data that a kernel found.
struct Fault {
  std::uint64_t call = 0;  ///< number of the call, from register_call()
  std::int64_t position = 0, value = 0;
};

/// Returns the error text for the position and value of invalid data.
using Describe = std::function<std::string(std::int64_t position, std::int64_t value)>;

/// Returns a number for a call that may meet invalid data. The descriptions of the last 1,024 calls are kept.
std::uint64_t register_call(Describe describe);

/// The calls of a captured graph. Their descriptions are kept while the graph lives, because each run reports the same
/// numbers.
class CapturedCalls : NonCopyable {
 public:
  CapturedCalls() = default;
  ~CapturedCalls();

  /// During its lifetime, register_call() on this thread adds to `calls`.
  class Scope : ScopedValue<CapturedCalls*> {
   public:
    explicit Scope(CapturedCalls& calls);
  };

 private:
  friend std::uint64_t register_call(Describe describe);
  std::vector<std::uint64_t> numbers_;
};

/// Returns the error text of `fault`.
std::string describe(const Fault& fault);

}  // namespace binade
