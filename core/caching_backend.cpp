#include "core/caching_backend.h"

#include <algorithm>
#include <new>

#include "core/error.h"

namespace binade {
namespace {

constexpr std::size_t kSmallest = 64;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// Eight sizes per power of two: at most 1/8 of a block is waste, and blocks are found again.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= 512) return round_up(bytes, kSmallest);
  std::size_t power = 512;
  while (power * 2 <= bytes) power *= 2;
  return round_up(bytes, power / 8);
}

}  // namespace

void* CachingBackend::allocate(std::size_t bytes, Stream) {
  std::lock_guard lock(mutex_);
  void* memory = records_here() ? take_recorded(bytes) : take(bytes);
  if (tracing_ != nullptr) note_taken(memory, bytes);
  return memory;
}

void* CachingBackend::take(std::size_t bytes) {
  const std::size_t capacity = size_class(bytes);
  if (void* block = take_cached(capacity)) {
    count(bytes);
    return block;
  }
  void* block = obtain(capacity);
  if (block == nullptr) {
    trim_locked();
    block = obtain(capacity);
  }
  if (block == nullptr) throw OutOfMemoryError(out_of_memory(bytes, in_use_));
  try {
    capacity_of_[block] = capacity;
  } catch (...) {
    give_back(block, capacity);
    throw;
  }
  count(bytes);
  return block;
}

void CachingBackend::release(void* memory, std::size_t bytes, Stream) noexcept {
  std::lock_guard lock(mutex_);
  if (tracing_ != nullptr) note_given_back(memory);
  if (!arenas_.empty() && release_into_arena(memory)) return;
  try {
    if (records_here()) hold(memory);
  } catch (const std::bad_alloc&) {
    return;  // nobody gets it any more: kernels that are recorded may write there
  }
  if (const auto held = held_.find(memory); held != held_.end()) {
    held->second.given_back = bytes;
    return;
  }
  in_use_ -= bytes;
  put_back(memory);
}

void CachingBackend::put_back(void* memory) noexcept {
  const auto known = capacity_of_.find(memory);
  try {
    cache_[known->second].push_back(memory);
  } catch (const std::bad_alloc&) {  // no memory to remember it: the system has it back
    give_back(memory, known->second);
    capacity_of_.erase(known);
  }
}

MemoryTrace CachingBackend::trace(const std::function<void()>& body) {
  Tracing tracing{.thread = std::this_thread::get_id()};
  {
    const std::lock_guard lock(mutex_);
    check<DeviceError>(tracing_ == nullptr, "trace: a body is being traced already");
    tracing_ = &tracing;
  }
  const auto end = [this] {
    const std::lock_guard lock(mutex_);
    tracing_ = nullptr;
  };
  try {
    body();
  } catch (...) {
    end();
    throw;
  }
  end();
  return std::move(tracing.trace);
}

std::shared_ptr<CachingBackend::RecordedMemory> CachingBackend::begin_recording(const MemoryTrace& trace,
                                                                                std::size_t alignment) {
  MemoryPlan plan = plan_memory(trace, alignment);
  const std::lock_guard lock(mutex_);
  check<DeviceError>(recorder_ == nullptr, "record: a body is being recorded already");
  void* base = nullptr;
  const std::size_t capacity = plan.bytes;
  if (capacity > 0) {
    base = obtain(capacity);
    if (base == nullptr) {
      trim_locked();
      base = obtain(capacity);
    }
    if (base == nullptr) throw OutOfMemoryError(out_of_memory(capacity, in_use_));
  }
  try {
    auto memory = std::make_shared<RecordedMemory>(RecordedMemory{.arena = Arena(trace, std::move(plan), base),
                                                                  .capacity = capacity,
                                                                  .held = {},
                                                                  .thread = std::this_thread::get_id()});
    if (capacity > 0) arenas_[static_cast<const char*>(base)] = memory;
    recorder_ = std::move(memory);
  } catch (...) {
    if (base != nullptr) give_back(base, capacity);
    throw;
  }
  count(capacity);
  return recorder_;
}

void CachingBackend::end_recording() {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<RecordedMemory> ended = std::move(recorder_);
  ended->arena.check_done();
}

void CachingBackend::release_recorded(const std::shared_ptr<RecordedMemory>& memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (recorder_ == memory) recorder_ = nullptr;
  memory->recording_alive = false;
  for (void* block : memory->held) {
    const auto held = held_.find(block);
    if (--held->second.recordings > 0) continue;
    const std::size_t given_back = held->second.given_back;
    held_.erase(held);
    if (given_back == 0) continue;  // its owner still has it
    in_use_ -= given_back;
    put_back(block);
  }
  if (memory->arena.empty()) free_arena(*memory);
}

void* CachingBackend::take_recorded(std::size_t bytes) {
  if (void* there = recorder_->arena.take(bytes)) return there;
  void* memory = take(bytes);
  try {
    hold(memory);
  } catch (...) {
    in_use_ -= bytes;
    put_back(memory);
    throw;
  }
  return memory;
}

void CachingBackend::hold(void* memory) {
  recorder_->held.push_back(memory);
  try {
    ++held_[memory].recordings;
  } catch (...) {
    recorder_->held.pop_back();
    throw;
  }
}

/// Whether it lies in an arena. One that has lost its recording goes with the last of its blocks.
bool CachingBackend::release_into_arena(void* memory) noexcept {
  auto there = arenas_.upper_bound(static_cast<const char*>(memory));
  if (there == arenas_.begin() || !(--there)->second->arena.owns(memory)) return false;
  const std::shared_ptr<RecordedMemory> recorded = there->second;
  recorded->arena.give_back(memory);
  if (!recorded->recording_alive && recorded->arena.empty()) free_arena(*recorded);
  return true;
}

void CachingBackend::free_arena(const RecordedMemory& memory) noexcept {
  if (memory.capacity == 0) return;
  in_use_ -= memory.capacity;
  void* base = memory.arena.base();
  arenas_.erase(static_cast<const char*>(base));
  give_back(base, memory.capacity);
}

void CachingBackend::note_taken(void* memory, std::size_t bytes) {
  Tracing& t = *tracing_;
  if (t.thread != std::this_thread::get_id()) return;
  t.alive[memory] = t.trace.blocks.size();
  t.trace.blocks.push_back({.bytes = bytes, .taken = t.event++});
}

void CachingBackend::note_given_back(void* memory) {
  Tracing& t = *tracing_;
  const auto known = t.alive.find(memory);
  if (known == t.alive.end()) return;
  t.trace.blocks[known->second].given_back = t.event++;
  t.alive.erase(known);
}

void CachingBackend::trim() noexcept {
  std::lock_guard lock(mutex_);
  trim_locked();
}

std::size_t CachingBackend::bytes_in_use() const {
  std::lock_guard lock(mutex_);
  return in_use_;
}

std::size_t CachingBackend::bytes_peak() const {
  std::lock_guard lock(mutex_);
  return peak_;
}

void CachingBackend::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = in_use_;
}

void* CachingBackend::take_cached(std::size_t capacity) {
  // A block up to a quarter larger than needed is better than a new one.
  for (auto it = cache_.lower_bound(capacity); it != cache_.end() && it->first <= capacity + capacity / 4; ++it) {
    if (it->second.empty()) continue;
    void* block = it->second.back();
    it->second.pop_back();
    return block;
  }
  return nullptr;
}

void CachingBackend::count(std::size_t bytes) {
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
}

void CachingBackend::trim_locked() noexcept {
  for (auto& [capacity, blocks] : cache_) {
    for (void* block : blocks) {
      capacity_of_.erase(block);
      give_back(block, capacity);
    }
  }
  cache_.clear();
}

}  // namespace binade
