#pragma once

#include <cstddef>
#include <cstdint>

/// What watch.cpp needs of the heap. heap.cpp counts; heap_malloc.cpp and heap_sanitizer.cpp are the two allocators
/// that tell it, and the build takes the one that fits it.
namespace binade::fuzz::heap {

/// Bytes that live now, and the most that lived since set_peak().
std::int64_t live();
std::int64_t peak();
void set_peak(std::int64_t bytes);

/// What the allocator tells.
void took(std::size_t bytes);
void gave_back(std::size_t bytes);

/// From now on this process has `bytes` more than it uses: what wants more is refused; where the build can tell, only
/// between enforce(true) and enforce(false). Throws Error where that cannot be had.
void limit(std::size_t bytes);
void enforce(bool on);

/// Begins to count, and calls `tell` before the process dies of a signal or of a sanitizer's report.
void watch(void (*tell)());

}  // namespace binade::fuzz::heap
