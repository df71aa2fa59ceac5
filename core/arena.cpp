#include "binade/core/arena.h"

#include <iterator>
#include <utility>

#include "binade/core/error.h"

namespace binade {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

}  // namespace

Arena::Arena(void* base, std::size_t bytes) : base_(static_cast<char*>(base)), bytes_(bytes) {
  chunks_[0] = {.bytes = bytes};
}

void* Arena::allocate(std::size_t bytes) {
  bytes = aligned(bytes);
  if (bytes > bytes_ - in_use_) return nullptr;
  for (auto chunk = chunks_.begin(); chunk != chunks_.end(); ++chunk)
    if (!chunk->second.used && chunk->second.bytes >= bytes) return use(chunk, chunk->first, bytes);
  return nullptr;
}

void* Arena::allocate_at(std::size_t offset, std::size_t bytes) {
  bytes = aligned(bytes);
  if (offset >= bytes_) return nullptr;
  const auto chunk = std::prev(chunks_.upper_bound(offset));
  const bool free = !chunk->second.used && bytes <= chunk->first + chunk->second.bytes - offset;
  return free ? use(chunk, offset, bytes) : nullptr;
}

/// Marks [offset, offset + bytes) of the free chunk as used and leaves the rest free. If the host has no memory for the
/// new entries (std::bad_alloc), the chunk may have been split, but all its parts are still free.
void* Arena::use(Chunks::iterator free, std::size_t offset, std::size_t bytes) {
  const std::size_t before = offset - free->first, after = free->second.bytes - before - bytes;
  if (after > 0) {
    chunks_.emplace_hint(std::next(free), offset + bytes, Chunk{.bytes = after});
    free->second.bytes -= after;
  }
  if (before > 0) {
    const auto used = chunks_.emplace_hint(std::next(free), offset, Chunk{.bytes = bytes});
    free->second.bytes = before;
    free = used;
  }
  free->second.used = true;
  in_use_ += bytes;
  ++chunks_in_use_;
  return base_ + offset;
}

void Arena::release(const void* memory) noexcept {
  auto chunk = chunks_.find(static_cast<std::size_t>(static_cast<const char*>(memory) - base_));
  in_use_ -= chunk->second.bytes;
  --chunks_in_use_;
  chunk->second.used = false;
  const auto merge = [&](Chunks::iterator at, Chunks::iterator after) {
    at->second.bytes += after->second.bytes;
    chunks_.erase(after);
  };
  if (const auto after = std::next(chunk); after != chunks_.end() && !after->second.used) merge(chunk, after);
  if (chunk == chunks_.begin()) return;
  if (const auto before = std::prev(chunk); !before->second.used) merge(before, chunk);
}

bool Arena::owns(const void* memory) const {
  const auto* at = static_cast<const char*>(memory);
  return at >= base_ && at < base_ + bytes_;
}

PlannedBlocks::PlannedBlocks(const MemoryTrace& trace, MemoryPlan plan) : plan_(std::move(plan)) {
  sizes_.reserve(trace.blocks.size());
  for (const MemoryTrace::Block& block : trace.blocks) sizes_.push_back(block.bytes);
}

void* PlannedBlocks::allocate(Arena* arena, std::size_t bytes) {
  if (next_ == sizes_.size())
    fail(fmt::format("{} bytes are allocated after the {} blocks of the trace", bytes, next_));
  if (sizes_[next_] != bytes)
    fail(fmt::format("{} bytes are allocated, but block {} of the trace has {} bytes", bytes, next_, sizes_[next_]));
  const std::size_t offset = plan_.offsets[next_++];
  if (offset == MemoryPlan::kNone) return nullptr;
  void* memory = arena->allocate_at(offset, bytes);
  if (memory == nullptr)
    fail(fmt::format("block {} of the trace is allocated while its memory is still in use", next_ - 1));
  return memory;
}

void PlannedBlocks::check_done(const Arena* arena) const {
  check<DeviceError>(failure_.empty(), "{}", failure_);
  if (arena == nullptr) return;
  check<DeviceError>(arena->chunks_in_use() == 0,
                     "capture: {} blocks that the trace releases are still in use at the end", arena->chunks_in_use());
}

void PlannedBlocks::fail(std::string text) {
  if (failure_.empty()) failure_ = "capture: the body does not allocate as in the trace: " + std::move(text);
  throw DeviceError(failure_);
}

}  // namespace binade
