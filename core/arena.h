#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "binade/core/memory_plan.h"

namespace binade {

/// One block of the system's memory, cut into pieces. While a recording is made its pieces lie where a plan has put
/// them; between the runs of recordings they are lent to whoever asks.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 256;

  Arena(void* base, std::size_t bytes);

  /// The lowest piece of `bytes` that is free, on kAlignment; null where there is none.
  void* take(std::size_t bytes);
  /// The piece at `offset`; null where any of it is in use or not there.
  void* take_at(std::size_t offset, std::size_t bytes);
  /// REQUIRES: a piece in use that begins there.
  void give_back(const void* memory) noexcept;

  bool owns(const void* memory) const;
  void* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t in_use() const { return in_use_; }  ///< bytes, each piece rounded up to kAlignment
  std::size_t pieces_in_use() const { return pieces_; }

 private:
  struct Piece {
    std::size_t bytes = 0;
    bool used = false;
  };
  using Pieces = std::map<std::size_t, Piece>;  // by offset; they cover the arena, no two free ones side by side

  void* use(Pieces::iterator free, std::size_t offset, std::size_t bytes);

  char* base_;
  std::size_t bytes_;
  std::size_t in_use_ = 0;
  std::size_t pieces_ = 0;
  Pieces pieces_of_;
};

/// The blocks of a trace, one after another, where a plan has put them in an arena.
class PlannedBlocks {
 public:
  PlannedBlocks(const MemoryTrace& trace, MemoryPlan plan);

  /// The next block; null where it is one that the trace keeps, and lies elsewhere. Throws DeviceError where the trace
  /// has no such block, or its place is still in use. `arena`: null where plan().bytes is 0.
  void* take(Arena* arena, std::size_t bytes);
  /// Throws where something went wrong, or is still in use that the trace gives back.
  void check_done(const Arena* arena) const;

  const MemoryPlan& plan() const { return plan_; }

 private:
  [[noreturn]] void fail(std::string text);

  std::vector<std::size_t> sizes_;  // of the trace's blocks
  MemoryPlan plan_;
  std::size_t next_ = 0;
  std::string failure_;
};

}  // namespace binade
