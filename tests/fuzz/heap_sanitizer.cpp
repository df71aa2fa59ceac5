// Counts allocations through the hooks of the sanitizers' allocator.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "tests/fuzz/heap.h"

extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, std::size_t),
                                              void (*)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void*);
void __sanitizer_set_death_callback(void (*)());
// malloc returns null instead of aborting. ASan's quarantine of freed memory is small, because memory is limited. It
// records four frames per allocation, because more frames take a tenth of the time. For a replay, set
// ASAN_OPTIONS=malloc_context_size=30.
const char* __asan_default_options() {
  return "allocator_may_return_null=1:quarantine_size_mb=16:malloc_context_size=4";
}
}

namespace binade::fuzz::heap {
namespace {

void (*death_callback)() = nullptr;
std::int64_t allowance = 0;           // bytes given to limit()
std::atomic<std::int64_t> most{0};    // 0: no limit
std::atomic<std::int64_t> mapped{0};  // bytes of anonymous mmap, as for tensors from 1 MiB

bool has_room_for(std::size_t bytes) {
  constexpr std::size_t kSmall = 4096;  // small blocks such as error messages always fit, as in a fragmented real heap
  const std::int64_t limit = most.load(std::memory_order_relaxed);
  return limit == 0 || bytes <= kSmall ||
         (bytes <= static_cast<std::size_t>(limit) &&
          live() + mapped.load(std::memory_order_relaxed) <= limit - static_cast<std::int64_t>(bytes));
}

}  // namespace

// A limit of the system would also apply to the sanitizers' own memory and end the process. So the functions below, by
// which Binade allocates (operator new, aligned_alloc, mmap), check the limit. It counts from the memory in use when
// enforce(true) is called. The code that checks the results of calls is not limited.
void limit(std::size_t bytes) { allowance = static_cast<std::int64_t>(bytes); }

void enforce(bool on) { most = on ? live() + mapped + allowance : 0; }

void watch(void (*on_death)()) {
  death_callback = on_death;
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, std::size_t bytes) { allocated(bytes); },
                                            [](const volatile void* p) { freed(__sanitizer_get_allocated_size(p)); });
  __sanitizer_set_death_callback(on_death);
}

}  // namespace binade::fuzz::heap

/// UBSan ends the process without calling the death callback.
extern "C" void __ubsan_on_report() {
  if (binade::fuzz::heap::death_callback != nullptr) binade::fuzz::heap::death_callback();
}

#if defined(__SANITIZE_ADDRESS__)  // the thread sanitizer must intercept mmap itself
extern "C" void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  using namespace binade::fuzz;
  const bool counts = (flags & MAP_ANONYMOUS) != 0;
  if (counts && !heap::has_room_for(bytes)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  const long address = ::syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
  if (counts && address != -1) heap::mapped += static_cast<std::int64_t>(bytes);
  return reinterpret_cast<void*>(address);
}
extern "C" int munmap(void* at, std::size_t bytes) {
  const auto result = static_cast<int>(::syscall(SYS_munmap, at, bytes));
  if (result == 0) binade::fuzz::heap::mapped -= static_cast<std::int64_t>(bytes);
  return result;
}

// Used by tensors below 1 MiB and kernel scratch.
extern "C" void* __interceptor_aligned_alloc(std::size_t alignment, std::size_t bytes);
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (binade::fuzz::heap::has_room_for(bytes)) return __interceptor_aligned_alloc(alignment, bytes);
  errno = ENOMEM;
  return nullptr;
}

// Without memory, the sanitizers' operator new ends the process, with any options. These throw std::bad_alloc, as the
// standard demands.
void* operator new(std::size_t bytes) {
  if (binade::fuzz::heap::has_room_for(bytes))
    if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  if (binade::fuzz::heap::has_room_for(bytes))
    if (void* p = std::aligned_alloc(to, (bytes + to - 1) / to * to)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return binade::fuzz::heap::has_room_for(bytes) ? std::malloc(bytes) : nullptr;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
#endif
