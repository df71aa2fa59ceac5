#pragma once

#include <atomic>
#include <cstdint>

#include "binade/core/scope.h"

namespace binade {

namespace detail {
void run_blocks(std::int64_t blocks, void (*body)(void*, std::int64_t), void* context);
}

/// The threads that execute parallel regions (core/parallel.h): helper threads, and the thread that begins the region.
/// Each Runtime has its own CpuThreads; threads without a Runtime share the CpuThreads of the process. It executes one
/// region at a time: a thread that begins another region meanwhile executes all blocks of that region itself.
class CpuThreads : NonCopyable {
 public:
  CpuThreads();
  ~CpuThreads();  ///< waits until the helper threads have ended
  /// Sets the number of threads, including the thread that begins a region; 0: one per core.
  void set_count(int n);
  int count() const { return count_.load(std::memory_order_relaxed); }

 private:
  friend void detail::run_blocks(std::int64_t blocks, void (*body)(void*, std::int64_t), void* context);
  class Pool;
  Pool& pool();

  std::atomic<int> count_;
  std::atomic<Pool*> pool_ = nullptr;  // made by the first region
  std::atomic<int> forks_ = 0;         // the value of g_forks in the process in which the pool was made
};

}  // namespace binade
