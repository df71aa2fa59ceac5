#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace binade {

/// The allocations and releases of a piece of work, in order.
struct MemoryTrace {
  /// Marks a block that was not released before the work ended.
  static constexpr std::int64_t kKept = -1;

  struct Block {
    std::size_t bytes = 0;
    std::int64_t allocated =
        0;  ///< number of its allocation event; allocations and releases are counted together, from 0
    std::int64_t released = kKept;  ///< number of its release event
  };
  std::vector<Block> blocks{};  ///< in order of allocation
};

/// The offset of each block in one arena. Blocks that live at the same time do not overlap.
struct MemoryPlan {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::vector<std::size_t>
      offsets{};          ///< of each block of the trace; kNone for kept blocks, which are outside the arena
  std::size_t bytes = 0;  ///< size of the arena
  std::size_t bound = 0;  ///< largest number of bytes that live at once, a lower bound of `bytes`
};

/// Places the blocks, each aligned to `alignment` bytes (a power of two), in several orders and returns the smallest
/// arena found. The same trace gives the same plan. Plans of models' traces are at most 5 % above the bound, usually
/// equal to it.
MemoryPlan plan_memory(const MemoryTrace& trace, std::size_t alignment);

}  // namespace binade
