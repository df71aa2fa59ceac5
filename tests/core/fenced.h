#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>
#include <vector>

namespace binade::test {

/// Allocates memory whose last element is followed by an inaccessible page: a read or write beyond the end ends the
/// test. This also tests kernels of instruction sets that the sanitizer builds leave out.
template <class T>
struct FencedAllocator {
  using value_type = T;

  FencedAllocator() = default;
  template <class U>
  FencedAllocator(const FencedAllocator<U>&) {}

  T* allocate(std::size_t count) {
    const std::size_t room = whole_pages(count);
    void* memory = mmap(nullptr, room + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    char* fence = static_cast<char*>(memory) + room;
    if (mprotect(fence, page(), PROT_NONE) != 0) throw std::bad_alloc();
    return reinterpret_cast<T*>(fence - count * sizeof(T));
  }
  void deallocate(T* elements, std::size_t count) {
    const std::size_t room = whole_pages(count);
    munmap(reinterpret_cast<char*>(elements + count) - room, room + page());
  }
  bool operator==(const FencedAllocator&) const { return true; }

 private:
  static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  static std::size_t whole_pages(std::size_t count) { return (count * sizeof(T) + page() - 1) / page() * page(); }
};

template <class T>
using Fenced = std::vector<T, FencedAllocator<T>>;

}  // namespace binade::test
