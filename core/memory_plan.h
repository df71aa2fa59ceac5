#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace binade {

/// The blocks that a function allocated while it was traced, with the order of all allocations and releases.
struct MemoryTrace {
  /// Value of Block::released for a block that was not released before the function ended.
  static constexpr std::int64_t kKept = -1;

  /// A block of memory that the function allocated.
  struct Block {
    std::size_t bytes = 0;
    /// Number of the event that allocated it. Events are allocations and releases, counted together from 0
    std::int64_t allocated = 0;
    std::int64_t released = kKept;  ///< number of the event that released it
  };
  std::vector<Block> blocks{};  ///< in order of allocation
};

/// The offset of each block in one arena. Blocks that are in use at the same time do not overlap.
struct MemoryPlan {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);  ///< offset of a block that is not in the arena

  /// One per block of the trace, in bytes; kNone for kept blocks, which are outside the arena
  std::vector<std::size_t> offsets{};
  std::size_t bytes = 0;  ///< size of the arena
  std::size_t bound = 0;  ///< largest number of bytes in use at once, a lower bound of `bytes`
};

/// Places the blocks, each aligned to `alignment` bytes (a power of two), in several orders and returns the smallest
/// arena found. The same trace gives the same plan. For traces of models, MemoryPlan::bytes is at most 5 % above
/// MemoryPlan::bound and usually equal to it.
MemoryPlan plan_memory(const MemoryTrace& trace, std::size_t alignment);

}  // namespace binade
