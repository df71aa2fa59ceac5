#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace binade {
namespace detail {

/// What a thread has made and must destroy when it ends.
struct ThreadOwned {
  void (*destroy)(ThreadOwned*) = nullptr;
  ThreadOwned* next = nullptr;
};

/// Has `owned` destroyed at the end of this thread, what was made last first. Never fails: where the system cannot
/// take note of a thread, what that thread owns is left to the end of the process.
void destroy_at_thread_exit(ThreadOwned& owned) noexcept;

}  // namespace detail

/// One T for each thread, made when the thread first asks for it:
///
///     constinit thread_local PerThread<std::vector<int>> numbers;
///     numbers.get().push_back(1);
///
/// In place of `thread_local std::vector<int>`: the C library notes the destructor of such a variable in memory that it
/// allocates, and ends the process when there is none. A step that runs out of memory is to end in an OutOfMemoryError,
/// whatever its threads touch for the first time just then. PerThread asks for no memory but what T's constructor asks
/// for. The main thread's T lives until the process ends.
template <class T>
class PerThread : detail::ThreadOwned {
 public:
  constexpr PerThread() = default;
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  T& get() {
    static_assert(std::is_trivially_destructible_v<PerThread>, "or it would need what it is here to avoid");
    if (!made_) [[unlikely]]
      make();
    return *std::launder(reinterpret_cast<T*>(place_));
  }

 private:
  void make() {
    ::new (static_cast<void*>(place_)) T();
    made_ = true;
    destroy = [](detail::ThreadOwned* owned) {
      auto& self = static_cast<PerThread&>(*owned);
      std::destroy_at(std::launder(reinterpret_cast<T*>(self.place_)));
      self.made_ = false;  // what is destroyed after it may ask for another
    };
    detail::destroy_at_thread_exit(*this);
  }

  alignas(T) std::byte place_[sizeof(T)] = {};
  bool made_ = false;
};

}  // namespace binade
