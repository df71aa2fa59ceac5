#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace binade::cpu {

/// Working memory of one thread, kept from call to call. Each use inside one kernel has its own slot, so that a kernel
/// called from a block of another does not overwrite its caller's. 64-byte aligned; contents undefined; at least 256
/// bytes behind the end are readable and writable.
enum class ScratchSlot { kShared, kPackedA, kPackedB, kAccumulators, kImage, kGradient, kCount };

class Scratch {
 public:
  template <class T>
  static T* get(ScratchSlot slot, std::size_t count) {
    thread_local Scratch scratch;
    return static_cast<T*>(scratch.grow(static_cast<std::size_t>(slot), count * sizeof(T) + kSlack));
  }

 private:
  static constexpr std::size_t kSlack = 256;
  static constexpr std::size_t kSlots = static_cast<std::size_t>(ScratchSlot::kCount);

  Scratch() = default;
  ~Scratch() {
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

  void* blocks_[kSlots] = {};
  std::size_t bytes_[kSlots] = {};
};

}  // namespace binade::cpu
