#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace binade::fuzz {

/// Measures the peak of heap memory since its construction: malloc and operator new in this process, plus tensor
/// blocks. Tensors below 1 MiB count in both, so this is an upper bound.
class MemoryWatch {
 public:
  MemoryWatch();
  std::size_t peak() const;

 private:
  std::int64_t before_;
};

/// If the process dies (a signal, a sanitizer's report) or hangs, it prints how to replay its last input. A hang ends
/// it `seconds` after the last call of alive().
void watch_for_death(unsigned seconds);
void alive();
/// Sets the input for that message; `replay` is its command line up to the input's number.
void name_input(const std::string& replay, std::uint64_t index);

/// CPU time of all threads of this process, which does not depend on other programs.
double processor_seconds();

/// Limits this process to `bytes` more memory than it uses now; see heap::limit().
void limit_memory(std::size_t bytes);

}  // namespace binade::fuzz
