#pragma once

#include <cstddef>

namespace binade::cpu {

/// The parts of a thread's working memory, which is kept from call to call. Each use inside a kernel has its own slot,
/// so that a kernel that is called from a block of another kernel does not overwrite its caller's memory. The memory is
/// 64-byte aligned, its contents are undefined, and at least 256 bytes past the end can be read and written.
enum class ScratchSlot { kShared, kPackedA, kPackedB, kAccumulators, kImage, kGradient, kCount };

/// Returns at least `bytes` of this thread's slot. Throws std::bad_alloc. Compiled once, for the kernels of all
/// instruction-set levels.
void* scratch(ScratchSlot slot, std::size_t bytes);

template <class T>
T* scratch_of(ScratchSlot slot, std::size_t count) {
  return static_cast<T*>(scratch(slot, count * sizeof(T)));
}

}  // namespace binade::cpu
