#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace binade {

// The thread pool of all CPU kernels. Results do not depend on the number of threads, because work is cut into blocks
// by its size alone, and reductions store one partial result per block and combine them in block order.

/// Returns the number of threads that execute a call of parallel_blocks() or parallel_for(), >= 1. Runtime sets it. If
/// the system refuses to start threads, fewer are used, and the bits are the same.
int num_threads();
void set_num_threads(int n);

namespace detail {
void run_blocks(std::int64_t blocks, void (*body)(void*, std::int64_t), void* context);
}

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
