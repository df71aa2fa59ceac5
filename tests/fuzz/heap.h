#pragma once

#include <cstddef>
#include <cstdint>

/// Heap counters for watch.cpp. heap.cpp counts; heap_malloc.cpp or heap_sanitizer.cpp (in sanitizer builds) reports
/// allocations to it.
namespace binade::fuzz::heap {

/// Bytes allocated now, and the maximum since set_peak().
std::int64_t live();
std::int64_t peak();
void set_peak(std::int64_t bytes);

/// Called by the allocator.
void allocated(std::size_t bytes);
void freed(std::size_t bytes);

/// Limits this process to `bytes` more than it uses now; allocations beyond fail. In sanitizer builds only between
/// enforce(true) and enforce(false). Throws Error if the limit cannot be set.
void limit(std::size_t bytes);
void enforce(bool on);

/// Starts counting, and calls `on_death` before the process dies of a signal or of a sanitizer's report.
void watch(void (*on_death)());

}  // namespace binade::fuzz::heap
