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
  pieces_of_[0] = {.bytes = bytes};
}

void* Arena::take(std::size_t bytes) {
  bytes = aligned(bytes);
  if (bytes > bytes_ - in_use_) return nullptr;
  for (auto piece = pieces_of_.begin(); piece != pieces_of_.end(); ++piece)
    if (!piece->second.used && piece->second.bytes >= bytes) return use(piece, piece->first, bytes);
  return nullptr;
}

void* Arena::take_at(std::size_t offset, std::size_t bytes) {
  bytes = aligned(bytes);
  if (offset >= bytes_) return nullptr;
  const auto piece = std::prev(pieces_of_.upper_bound(offset));
  const bool free = !piece->second.used && bytes <= piece->first + piece->second.bytes - offset;
  return free ? use(piece, offset, bytes) : nullptr;
}

/// Cuts [offset, offset + bytes) out of a free piece. Where memory runs out, nothing has changed but a cut.
void* Arena::use(Pieces::iterator free, std::size_t offset, std::size_t bytes) {
  const std::size_t before = offset - free->first, behind = free->second.bytes - before - bytes;
  if (behind > 0) {
    pieces_of_.emplace_hint(std::next(free), offset + bytes, Piece{.bytes = behind});
    free->second.bytes -= behind;
  }
  if (before > 0) {
    const auto here = pieces_of_.emplace_hint(std::next(free), offset, Piece{.bytes = bytes});
    free->second.bytes = before;
    free = here;
  }
  free->second.used = true;
  in_use_ += bytes;
  ++pieces_;
  return base_ + offset;
}

void Arena::give_back(const void* memory) noexcept {
  auto piece = pieces_of_.find(static_cast<std::size_t>(static_cast<const char*>(memory) - base_));
  in_use_ -= piece->second.bytes;
  --pieces_;
  piece->second.used = false;
  const auto merge = [&](Pieces::iterator at, Pieces::iterator behind) {
    at->second.bytes += behind->second.bytes;
    pieces_of_.erase(behind);
  };
  if (const auto behind = std::next(piece); behind != pieces_of_.end() && !behind->second.used) merge(piece, behind);
  if (piece == pieces_of_.begin()) return;
  if (const auto before = std::prev(piece); !before->second.used) merge(before, piece);
}

bool Arena::owns(const void* memory) const {
  const auto* at = static_cast<const char*>(memory);
  return at >= base_ && at < base_ + bytes_;
}

PlannedBlocks::PlannedBlocks(const MemoryTrace& trace, MemoryPlan plan) : plan_(std::move(plan)) {
  sizes_.reserve(trace.blocks.size());
  for (const MemoryTrace::Block& block : trace.blocks) sizes_.push_back(block.bytes);
}

void* PlannedBlocks::take(Arena* arena, std::size_t bytes) {
  if (next_ == sizes_.size()) fail(fmt::format("{} bytes are taken behind the {} blocks of the trace", bytes, next_));
  if (sizes_[next_] != bytes)
    fail(fmt::format("{} bytes are taken where the trace has block {} of {} bytes", bytes, next_, sizes_[next_]));
  const std::size_t offset = plan_.offsets[next_++];
  if (offset == MemoryPlan::kNone) return nullptr;
  void* memory = arena->take_at(offset, bytes);
  if (memory == nullptr)
    fail(fmt::format("block {} of the trace is taken before what lies there has been given back", next_ - 1));
  return memory;
}

void PlannedBlocks::check_done(const Arena* arena) const {
  check<DeviceError>(failure_.empty(), "{}", failure_);
  if (arena == nullptr) return;
  check<DeviceError>(arena->pieces_in_use() == 0,
                     "recording: {} blocks that the trace gives back are still in use at the end",
                     arena->pieces_in_use());
}

void PlannedBlocks::fail(std::string text) {
  if (failure_.empty()) failure_ = "recording: the body does not take the memory of the trace: " + std::move(text);
  throw DeviceError(failure_);
}

}  // namespace binade
