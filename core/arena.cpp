#include "core/arena.h"

#include <iterator>
#include <utility>

#include "core/error.h"

namespace binade {

Arena::Arena(const MemoryTrace& trace, MemoryPlan plan, void* base)
    : plan_(std::move(plan)), base_(static_cast<char*>(base)) {
  sizes_.reserve(trace.blocks.size());
  for (const MemoryTrace::Block& block : trace.blocks) sizes_.push_back(block.bytes);
}

void* Arena::take(std::size_t bytes) {
  if (next_ == sizes_.size()) fail(fmt::format("{} bytes are taken behind the {} blocks of the trace", bytes, next_));
  if (sizes_[next_] != bytes)
    fail(fmt::format("{} bytes are taken where the trace has block {} of {} bytes", bytes, next_, sizes_[next_]));
  const std::size_t offset = plan_.offsets[next_++];
  if (offset == MemoryPlan::kNone) return nullptr;
  const auto behind = alive_.lower_bound(offset);
  const bool free = (behind == alive_.end() || behind->first >= offset + bytes) &&
                    (behind == alive_.begin() || std::prev(behind)->second <= offset);
  if (!free) fail(fmt::format("block {} of the trace is taken before what lies there has been given back", next_ - 1));
  alive_[offset] = offset + bytes;
  return base_ + offset;
}

void Arena::give_back(const void* memory) {
  alive_.erase(static_cast<std::size_t>(static_cast<const char*>(memory) - base_));
}

bool Arena::owns(const void* memory) const {
  const auto* at = static_cast<const char*>(memory);
  return base_ != nullptr && at >= base_ && at < base_ + plan_.bytes;
}

void Arena::check_done() const {
  check<DeviceError>(failure_.empty(), "{}", failure_);
  check<DeviceError>(alive_.empty(), "recording: {} blocks that the trace gives back are still in use at the end",
                     alive_.size());
}

void Arena::fail(std::string text) {
  if (failure_.empty()) failure_ = "recording: the body does not take the memory of the trace: " + std::move(text);
  throw DeviceError(failure_);
}

}  // namespace binade
