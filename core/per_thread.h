#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace binade {
namespace detail {

/// Base of an object that is destroyed when its thread ends.
struct ThreadOwned {
  void (*destroy)(ThreadOwned*) = nullptr;
  ThreadOwned* next = nullptr;
};

/// Registers `owned` to be destroyed at the end of this thread, in reverse order of registration. If the system cannot
/// register the thread, its objects live until the process ends.
void destroy_at_thread_exit(ThreadOwned& owned) noexcept;

}  // namespace detail

/// One T per thread, constructed when the thread first calls get():
///
///     constinit thread_local PerThread<std::vector<int>> numbers;
///     numbers.get().push_back(1);
///
/// Use it instead of `thread_local std::vector<int>`: the C library allocates memory to register the destructor of such
/// a variable, and ends the process if it cannot. A step that runs out of memory must end in an OutOfMemoryError
/// instead, even if a thread uses a variable for the first time just then. PerThread allocates no memory beyond what
/// T's constructor does. The main thread's T lives until the process ends.
template <class T>
class PerThread : detail::ThreadOwned {
 public:
  constexpr PerThread() = default;
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  T& get() {
    static_assert(std::is_trivially_destructible_v<PerThread>, "its destructor would have to be registered");
    if (!made_) [[unlikely]]
      make();
    return *std::launder(reinterpret_cast<T*>(storage_));
  }

 private:
  void make() {
    ::new (static_cast<void*>(storage_)) T();
    made_ = true;
    destroy = [](detail::ThreadOwned* owned) {
      auto& self = static_cast<PerThread&>(*owned);
      std::destroy_at(std::launder(reinterpret_cast<T*>(self.storage_)));
      self.made_ = false;  // an object destroyed later may call get() again
    };
    detail::destroy_at_thread_exit(*this);
  }

  alignas(T) std::byte storage_[sizeof(T)] = {};
  bool made_ = false;  // true if storage_ contains an object
};

}  // namespace binade
