#include "tests/crash/scarce_memory.h"

#include <link.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace binade::crash {

namespace {

std::atomic<bool> g_scarce = false, g_struck = false;
std::atomic<int> g_left = 0;  // number of allocations until one fails
std::atomic<bool> g_lasts = false;
thread_local int t_uncounted = 0;

/// The address range of the code of this program or of libbinade.
struct Range {
  std::uintptr_t begin = 0, end = 0;
};
std::array<Range, 4> g_own{};

int note_own_code(dl_phdr_info* module, std::size_t, void* data) {
  auto& used = *static_cast<std::size_t*>(data);
  const bool program = module->dlpi_name[0] == '\0';
  if (!program && std::strstr(module->dlpi_name, "libbinade") == nullptr) return 0;
  for (int i = 0; i < module->dlpi_phnum; ++i) {
    const auto& segment = module->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || used == g_own.size()) continue;
    const std::uintptr_t begin = module->dlpi_addr + segment.p_vaddr;
    g_own[used++] = {begin, begin + segment.p_memsz};
  }
  return 0;
}

bool fails() {
  if (!g_scarce.load(std::memory_order_relaxed) || t_uncounted > 0) return false;
  const int left = g_left.fetch_sub(1);
  if (left > 0 || (left < 0 && !g_lasts)) return false;
  g_struck = true;
  return true;
}

[[maybe_unused]] bool fails_for(const void* caller) {
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  for (const Range& own : g_own)
    if (at >= own.begin && at < own.end) return fails();
  return false;
}

}  // namespace

ScarceMemory::ScarceMemory(const Shortage& shortage) {
  std::size_t used = 0;
  ::dl_iterate_phdr(note_own_code, &used);
  g_left = shortage.call;
  g_lasts = shortage.lasts;
  g_struck = false;
  g_scarce = true;
}

ScarceMemory::~ScarceMemory() { g_scarce = false; }

bool ScarceMemory::struck() { return g_struck; }

UncountedMemory::UncountedMemory() { ++t_uncounted; }
UncountedMemory::~UncountedMemory() { --t_uncounted; }

}  // namespace binade::crash

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace {
void* obtain(std::size_t bytes) { return std::malloc(bytes); }
void* obtain_aligned(std::size_t alignment, std::size_t bytes) { return std::aligned_alloc(alignment, bytes); }
}  // namespace

#else

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

static bool refused(const void* caller) {
  if (!binade::crash::fails_for(caller)) return false;
  errno = ENOMEM;
  return true;
}

void* malloc(std::size_t bytes) { return refused(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) {
  return refused(__builtin_return_address(0)) ? nullptr : __libc_calloc(count, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return refused(__builtin_return_address(0)) ? nullptr : __libc_memalign(alignment, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  return refused(__builtin_return_address(0)) ? nullptr : __libc_realloc(old, bytes);
}
}

namespace {
void* obtain(std::size_t bytes) { return __libc_malloc(bytes); }
void* obtain_aligned(std::size_t alignment, std::size_t bytes) { return __libc_memalign(alignment, bytes); }
}  // namespace

#endif

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return binade::crash::fails() ? nullptr : obtain(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  void* memory = binade::crash::fails() ? nullptr : obtain_aligned(to, (bytes + to - 1) / to * to);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
