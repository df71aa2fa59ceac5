#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace binade::fuzz {

/// Heap that one piece of work takes at its peak beyond what was there before: malloc and operator new in this process,
/// and the tensors' own blocks. Tensors below a mebibyte count in both, so this is an upper bound.
class MemoryWatch {
 public:
  MemoryWatch();
  std::size_t peak() const;

 private:
  std::int64_t before_;
};

/// Has the process say how its last input is replayed when it dies (a signal, a sanitizer's report) or hangs. A hang
/// ends it `seconds` after the last call of alive().
void watch_for_death(unsigned seconds);
void alive();
/// The input that is read from here on; `replay` is the command line but for the input's number.
void name_input(const std::string& replay, std::uint64_t index);

/// Of this process, all threads together: what other programs take is not the reader's.
double processor_seconds();

/// From here on the system gives this process `bytes` more of memory at most.
void limit_memory(std::size_t bytes);

}  // namespace binade::fuzz
