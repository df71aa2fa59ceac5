#include "binade/core/exclusive_use.h"

#include "binade/core/error.h"

namespace binade {
namespace {

/// Returns an address that is unique among the running threads.
const void* this_thread() {
  static thread_local const char token = 0;
  return &token;
}

}  // namespace

void ExclusiveUse::begin(const char* name) {
  for (;;) {
    const void* owner = nullptr;
    if (thread_.compare_exchange_strong(owner, this_thread(), std::memory_order_acquire)) break;
    if (owner == this_thread()) {
      ++depth_;
      return;
    }
    if (const char* other = name_.load(std::memory_order_acquire); other != nullptr)
      throw ArgumentError(fmt::format(
          "{0}: {1} was called while another thread is inside of {2} of the same {0}, which serves one thread at a "
          "time; let the threads take turns (a mutex around each call), or give each thread its own {0}",
          object_, name, other));
    // The other thread's call begins or ends at this moment: look again.
  }
  depth_ = 1;
  name_.store(name, std::memory_order_release);
}

void ExclusiveUse::end() noexcept {
  if (--depth_ > 0) return;
  name_.store(nullptr, std::memory_order_relaxed);
  thread_.store(nullptr, std::memory_order_release);
}

}  // namespace binade
