#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/memory_plan.h"

namespace binade {

/// Hands out the memory of a recording: the blocks of a trace, one after another, where a plan has put them.
class Arena {
 public:
  /// `base`: memory of plan.bytes, null where that is 0.
  Arena(const MemoryTrace& trace, MemoryPlan plan, void* base);

  /// The next block; null where it is one that the trace keeps, and lies elsewhere. Throws DeviceError where the trace
  /// has no such block, or its place is still in use.
  void* take(std::size_t bytes);
  void give_back(const void* memory);
  bool owns(const void* memory) const;
  bool empty() const { return alive_.empty(); }  ///< all has been given back

  /// Throws where something went wrong, or is still in use that the trace gives back.
  void check_done() const;

  void* base() const { return base_; }
  std::size_t bytes() const { return plan_.bytes; }
  std::size_t bound() const { return plan_.bound; }

 private:
  [[noreturn]] void fail(std::string text);

  std::vector<std::size_t> sizes_;  // of the trace's blocks
  MemoryPlan plan_;
  char* base_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::size_t> alive_;  // offset -> end
  std::string failure_;
};

}  // namespace binade
