#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace binade {

/// What memory a piece of work takes and gives back, in order.
struct MemoryTrace {
  /// Not given back before the work ended.
  static constexpr std::int64_t kKept = -1;

  struct Block {
    std::size_t bytes = 0;
    std::int64_t taken = 0;           ///< the number of the event; taking and giving back count, from 0
    std::int64_t given_back = kKept;  ///< likewise
  };
  std::vector<Block> blocks{};  ///< in the order in which they were taken
};

/// Where each block lies in one arena: two that live at the same time do not overlap.
struct MemoryPlan {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::vector<std::size_t> offsets{};  ///< of each block of the trace; kNone: a kept block, which is outside the arena
  std::size_t bytes = 0;               ///< of the arena
  std::size_t bound = 0;               ///< the most that lives at once: no plan is smaller
};

/// Places the blocks, each on `alignment` bytes (a power of two), in several orders and takes the smallest arena found.
/// The same trace gives the same plan. Models' traces come out within 5 % of the bound, mostly on it.
MemoryPlan plan_memory(const MemoryTrace& trace, std::size_t alignment);

}  // namespace binade
