// Replaces malloc and similar functions by wrappers that count, and call the C library's. Shared libraries (libpng,
// zlib, libhdf5) and operator new call the wrappers too.
#include <malloc.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <initializer_list>
#include <string>

#include "binade/core/error.h"
#include "tests/fuzz/heap.h"

namespace binade::fuzz::heap {
namespace {

void (*death_callback)() = nullptr;

void on_signal(int signal) {
  death_callback();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void* counted(void* p) {
  if (p != nullptr) allocated(malloc_usable_size(p));
  return p;
}

}  // namespace

void watch(void (*on_death)()) {
  death_callback = on_death;
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) std::signal(signal, on_signal);
}

void limit(std::size_t bytes) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kib = 0;
  while (status >> word && word != "VmData:") {
  }
  status >> kib;
  const rlimit data{kib * 1024 + bytes, RLIM_INFINITY};
  check<Error>(status.good() && ::setrlimit(RLIMIT_DATA, &data) == 0,
               "fuzz: the memory of this process cannot be limited");
}

void enforce(bool) {}

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) { return counted(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) { return counted(__libc_calloc(count, bytes)); }
void* memalign(std::size_t alignment, std::size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  *out = counted(__libc_memalign(alignment, bytes));
  return *out != nullptr ? 0 : ENOMEM;
}
void* realloc(void* old, std::size_t bytes) {
  const std::size_t before = old != nullptr ? malloc_usable_size(old) : 0;
  void* p = __libc_realloc(old, bytes);
  if (p != nullptr || bytes == 0) freed(before);
  return counted(p);
}
void free(void* p) {
  if (p != nullptr) freed(malloc_usable_size(p));
  __libc_free(p);
}
}

}  // namespace binade::fuzz::heap
