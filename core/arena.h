#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "binade/core/memory_plan.h"

namespace binade {

/// A block of device memory that hands out chunks. While a graph is captured, chunks get the offsets of a memory plan.
/// Between executions of captured graphs, eager work may borrow the free memory.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  Arena(void* base, std::size_t bytes);

  /// Returns the lowest free chunk of `bytes`, aligned to kAlignment, or null if there is none.
  void* allocate(std::size_t bytes);
  /// Returns the chunk at `offset`, or null if any part of it is in use or outside the arena.
  void* allocate_at(std::size_t offset, std::size_t bytes);
  /// Makes the chunk at `memory` free. REQUIRES: `memory` is the start of a chunk in use.
  void release(const void* memory) noexcept;

  bool owns(const void* memory) const;
  void* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t in_use() const { return in_use_; }  ///< bytes in use; each chunk is rounded up to kAlignment
  std::size_t chunks_in_use() const { return chunks_in_use_; }

 private:
  /// A part of the arena, which is in use or free.
  struct Chunk {
    std::size_t bytes = 0;
    bool used = false;
  };
  using Chunks =
      std::map<std::size_t, Chunk>;  // keys are offsets; chunks cover the arena, and no two neighbors are free

  void* use(Chunks::iterator free, std::size_t offset, std::size_t bytes);

  char* base_;
  std::size_t bytes_;
  std::size_t in_use_ = 0;
  std::size_t chunks_in_use_ = 0;
  Chunks chunks_;
};

/// Hands out the blocks of a memory trace in the order of the trace, at the arena offsets that a memory plan chose.
class PlannedBlocks {
 public:
  PlannedBlocks(const MemoryTrace& trace, MemoryPlan plan);

  /// Returns the next block; null if the traced function had not released it when it ended: such blocks are outside of
  /// the arena. Throws DeviceError if the trace has no further block, if the next one has another size, or if its memory
  /// is still in use. `arena` may be null if plan().bytes is 0.
  void* allocate(Arena* arena, std::size_t bytes);
  /// Throws DeviceError if allocate() failed, or if a block is still in use although the trace releases it.
  void check_done(const Arena* arena) const;

  const MemoryPlan& plan() const { return plan_; }

 private:
  [[noreturn]] void fail(std::string text);

  std::vector<std::size_t> sizes_;  // bytes of each block of the trace
  MemoryPlan plan_;
  std::size_t next_ = 0;  // index of the block that the next allocate() returns
  std::string failure_;   // text of the first error, or empty
};

}  // namespace binade
