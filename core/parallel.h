#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace binade {

/// One pool for every CPU kernel.
///
/// Determinism: work is cut into blocks by its *size alone*, never by the thread count; which thread runs a block is
/// free, what a block computes is not. Reductions write one partial per block and combine the partials in block order.

/// Threads used by parallel regions, >= 1. Set by Runtime. Regions go on with fewer while the system refuses to start
/// them, and give the same bits.
int num_threads();
void set_num_threads(int n);

namespace detail {
void run_blocks(std::int64_t blocks, void (*body)(void*, std::int64_t), void* context);
}

/// Calls body(block) for block = 0 … blocks-1, in parallel, and waits. Calls from inside a block run serially.
/// An exception thrown by a body is rethrown here (the one of the lowest block).
template <class F>
void parallel_blocks(std::int64_t blocks, F&& body) {
  using Body = std::remove_reference_t<F>;
  detail::run_blocks(
      blocks, [](void* context, std::int64_t block) { (*static_cast<Body*>(context))(block); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

/// Cuts [0, count) into ranges of `grain` and calls body(begin, end) for each.
template <class F>
void parallel_for(std::int64_t count, std::int64_t grain, F&& body) {
  const std::int64_t blocks = (count + grain - 1) / grain;
  parallel_blocks(blocks, [&](std::int64_t block) {
    const std::int64_t begin = block * grain;
    body(begin, begin + grain < count ? begin + grain : count);
  });
}

}  // namespace binade
