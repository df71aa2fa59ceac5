// The sanitizers' allocator, which tells what it does.
#include <atomic>
#include <cstddef>

#include "tests/fuzz/heap.h"

extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, std::size_t),
                                              void (*)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void*);
void __sanitizer_set_death_callback(void (*)());
}

namespace binade::fuzz::heap {
namespace {

std::atomic<std::int64_t> now_live{0}, most_live{0};

void took(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  const std::int64_t now = now_live.fetch_add(size, std::memory_order_relaxed) + size;
  if (now > most_live.load(std::memory_order_relaxed)) most_live.store(now, std::memory_order_relaxed);
}
void gave_back(std::size_t bytes) { now_live.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed); }

}  // namespace

std::int64_t live() { return now_live.load(); }
std::int64_t peak() { return most_live.load(); }
void set_peak(std::int64_t bytes) { most_live.store(bytes); }

void watch(void (*tell)()) {
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, std::size_t bytes) { took(bytes); },
                                            [](const volatile void* p) {
                                              gave_back(__sanitizer_get_allocated_size(p));
                                            });
  __sanitizer_set_death_callback(tell);
}

}  // namespace binade::fuzz::heap
