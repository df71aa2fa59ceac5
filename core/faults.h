#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/core/scope.h"

/// Reports of invalid data from GPU kernels, such as a target that is no class or an index outside a table. On the CPU
/// an op throws DataError at once. On a GPU, the host has already continued when the kernel finds the data. The kernel
/// stores NaN as result and records the first such position; the next wait for the device throws the DataError.
namespace binade {

/// Invalid data that a kernel found.
struct Fault {
  std::uint64_t call = 0;                ///< number of the call, from register_call()
  std::int64_t position = 0, value = 0;  ///< index of the invalid element in its tensor, and the element
};

/// Returns the error text for the position and value of invalid data.
using Describe = std::function<std::string(std::int64_t position, std::int64_t value)>;

/// Registers an op call that may find invalid data and returns its number. `describe` makes the error text; it is kept
/// for the last 1,024 calls.
std::uint64_t register_call(Describe describe);

/// The registered calls of a captured graph. Their descriptions are kept while the graph lives, because each execution
/// of the graph reports the same call numbers.
class CapturedCalls : NonCopyable {
 public:
  CapturedCalls() = default;
  ~CapturedCalls();

  /// During its lifetime, register_call() on this thread adds the calls to `calls`.
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
