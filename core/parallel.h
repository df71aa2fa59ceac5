#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "binade/core/scope.h"

namespace binade {

namespace detail {
void run_blocks(std::int64_t blocks, void (*body)(void*, std::int64_t), void* context);
}

// The threads of all CPU kernels. Results do not depend on the number of threads: work is cut into blocks by its size
// alone, and reductions store one partial result per block and combine them in block order.

/// The threads that execute parallel regions: helper threads, and the thread that begins the region. Each Runtime has
/// such threads, and threads without a Runtime share those of the process. They execute one region at a time: a thread
/// that begins another one meanwhile executes all of its blocks itself.
class CpuThreads : NonCopyable {
 public:
  CpuThreads();
  ~CpuThreads();  ///< waits until the helper threads have ended
  /// Sets their number, helpers and the thread that begins a region; 0: one per core.
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

/// Returns the number of threads that execute a region which this thread begins, >= 1. If the system refuses to start
/// threads, fewer are used, and the bits are the same.
int num_threads();
/// Sets it for the Runtime that this thread uses, or for all threads without one; 0: one per core.
void set_num_threads(int n);

/// Calls body(block) for block = 0 … blocks - 1 in parallel, and waits. A call from inside a block runs serially. If
/// bodies throw, rethrows the exception of the lowest block.
template <class F>
void parallel_blocks(std::int64_t blocks, F&& body) {
  using Body = std::remove_reference_t<F>;
  detail::run_blocks(
      blocks, [](void* context, std::int64_t block) { (*static_cast<Body*>(context))(block); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

/// Cuts [0, count) into ranges of `grain` elements (the last may be shorter) and calls body(begin, end) for each, in
/// parallel.
template <class F>
void parallel_for(std::int64_t count, std::int64_t grain, F&& body) {
  const std::int64_t blocks = (count + grain - 1) / grain;
  parallel_blocks(blocks, [&](std::int64_t block) {
    const std::int64_t begin = block * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  });
}

}  // namespace binade
