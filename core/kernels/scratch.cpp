#include "binade/core/kernels/scratch.h"

#include <cstdlib>
#include <new>

#include "binade/core/per_thread.h"

namespace binade::cpu {
namespace {

constexpr std::size_t kSlack = 256;
constexpr std::size_t kSlots = static_cast<std::size_t>(ScratchSlot::kCount);

/// The working memory of one thread: one block per slot.
class Blocks {
 public:
  Blocks() = default;
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() {
    for (void* block : blocks_) std::free(block);
  }
  void* grow(std::size_t slot, std::size_t bytes) {
    if (bytes > bytes_[slot]) {
      const std::size_t rounded = (bytes + bytes / 8 + 4095) / 4096 * 4096;
      std::free(blocks_[slot]);
      blocks_[slot] = std::aligned_alloc(64, rounded);
      bytes_[slot] = blocks_[slot] == nullptr ? 0 : rounded;
      if (blocks_[slot] == nullptr) throw std::bad_alloc();
    }
    return blocks_[slot];
  }

 private:
  void* blocks_[kSlots] = {};
  std::size_t bytes_[kSlots] = {};
};

}  // namespace

void* scratch(ScratchSlot slot, std::size_t bytes) {
  constinit thread_local PerThread<Blocks> blocks;
  return blocks.get().grow(static_cast<std::size_t>(slot), bytes + kSlack);
}

}  // namespace binade::cpu
