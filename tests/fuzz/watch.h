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

/// Says which input was being read when the process dies (a signal, a sanitizer's report) or hangs: `what` is called
/// at that moment and must not allocate. A hang ends the process after `seconds`, counted from the last call of
/// alive().
void watch_for_death(const char* (*what)(), unsigned seconds);
void alive();

/// From here on the system gives this process `bytes` more of memory at most.
void limit_memory(std::size_t bytes);

}  // namespace binade::fuzz
