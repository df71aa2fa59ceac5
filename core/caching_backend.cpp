#include "binade/core/caching_backend.h"

#include <algorithm>
#include <new>

#include "binade/core/error.h"

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
  void* memory = records_here() ? take_recorded(bytes) : take_lent(bytes);
  if (memory == nullptr) memory = take(bytes);
  count(bytes);
  if (tracing_ != nullptr) note_taken(memory, bytes);
  return memory;
}

void* CachingBackend::take(std::size_t bytes) {
  const std::size_t capacity = size_class(bytes);
  if (void* block = take_cached(capacity)) return block;
  void* block = obtain_counted(capacity);
  if (block == nullptr) throw OutOfMemoryError(no_memory_for(bytes));
  try {
    capacity_of_[block] = capacity;
  } catch (...) {
    give_back_counted(block, capacity);
    throw;
  }
  return block;
}

/// Out of an arena, or null. Not while a run is being sent: what is taken then could be written before it.
void* CachingBackend::take_lent(std::size_t bytes) {
  if (arenas_.empty() || sending_ > 0 || recorder_ != nullptr || !borrowers_.contains(std::this_thread::get_id()))
    return nullptr;
  for (const auto& [base, shared] : arenas_) {
    if (shared->recordings == 0) continue;  // it goes with its last block
    if (void* memory = shared->arena.take(bytes)) return memory;
  }
  return nullptr;
}

void CachingBackend::release(void* memory, std::size_t bytes, Stream) noexcept {
  std::lock_guard lock(mutex_);
  if (tracing_ != nullptr) note_given_back(memory);
  const bool planned = recorder_ != nullptr && recorder_->shared != nullptr && recorder_->shared->arena.owns(memory);
  try {
    if (records_here() && !planned) hold(memory);
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
  if (const std::shared_ptr<SharedArena> shared = arena_of(memory)) {
    shared->arena.give_back(memory);
    free_if_left(shared);
    return;
  }
  const auto known = capacity_of_.find(memory);
  try {
    cache_[known->second].push_back(memory);
  } catch (const std::bad_alloc&) {  // no memory to remember it: the system has it back
    give_back_counted(memory, known->second);
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

std::shared_ptr<CachingBackend::RecordedMemory> CachingBackend::begin_recording(const MemoryTrace& trace) {
  MemoryPlan plan = plan_memory(trace, Arena::kAlignment);
  const std::size_t bytes = plan.bytes;
  const std::lock_guard lock(mutex_);
  check<DeviceError>(recorder_ == nullptr, "record: a body is being recorded already");
  auto memory = std::make_shared<RecordedMemory>(RecordedMemory{.blocks = PlannedBlocks(trace, std::move(plan)),
                                                                .shared = nullptr,
                                                                .held = {},
                                                                .thread = std::this_thread::get_id()});
  if (bytes > 0) {
    memory->shared = arena_for(bytes);
    ++memory->shared->recordings;
  }
  recorder_ = memory;
  return memory;
}

void CachingBackend::end_recording() {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<RecordedMemory> ended = std::move(recorder_);
  ended->blocks.check_done(ended->arena());
}

void CachingBackend::release_recorded(const std::shared_ptr<RecordedMemory>& memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (recorder_ == memory) recorder_ = nullptr;
  for (void* block : memory->held) {
    const auto held = held_.find(block);
    if (--held->second.recordings > 0) continue;
    const std::size_t given_back = held->second.given_back;
    held_.erase(held);
    if (given_back == 0) continue;
    in_use_ -= given_back;
    put_back(block);
  }
  if (memory->shared == nullptr) return;
  --memory->shared->recordings;
  free_if_left(memory->shared);
}

void CachingBackend::run_recorded(const RecordedMemory& memory, const std::function<void()>& send) {
  {
    const std::lock_guard lock(mutex_);
    // What is recorded into the arena just now is not in use: it does not run.
    const bool recorded_into = recorder_ != nullptr && recorder_->shared == memory.shared;
    if (memory.shared != nullptr && !recorded_into) check_whole(*memory.shared, "a recording cannot run");
    peak_ = std::max(peak_, in_use_ + memory.blocks.plan().bytes);
    ++sending_;
  }
  const auto sent = [this] {
    const std::lock_guard lock(mutex_);
    --sending_;
  };
  try {
    send();
  } catch (...) {
    sent();
    throw;
  }
  sent();
}

void* CachingBackend::take_recorded(std::size_t bytes) {
  if (void* there = recorder_->blocks.take(recorder_->arena(), bytes)) return there;
  void* memory = take(bytes);
  try {
    hold(memory);
  } catch (...) {
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

std::shared_ptr<CachingBackend::SharedArena> CachingBackend::arena_of(const void* memory) const {
  auto there = arenas_.upper_bound(static_cast<const char*>(memory));
  if (there == arenas_.begin() || !(--there)->second->arena.owns(memory)) return nullptr;
  return there->second;
}

/// The smallest arena of a recording that has `bytes`, or a new one.
std::shared_ptr<CachingBackend::SharedArena> CachingBackend::arena_for(std::size_t bytes) {
  std::shared_ptr<SharedArena> smallest;
  for (const auto& [base, shared] : arenas_) {
    if (shared->recordings == 0 || shared->arena.bytes() < bytes) continue;
    if (smallest == nullptr || shared->arena.bytes() < smallest->arena.bytes()) smallest = shared;
  }
  if (smallest != nullptr) {
    check_whole(*smallest, "nothing can be recorded");
    return smallest;
  }
  void* base = obtain_counted(bytes);
  if (base == nullptr) throw OutOfMemoryError(no_memory_for(bytes));
  try {
    auto made = std::make_shared<SharedArena>(SharedArena{.arena = Arena(base, bytes)});
    arenas_[static_cast<const char*>(base)] = made;
    return made;
  } catch (...) {
    give_back_counted(base, bytes);
    throw;
  }
}

void CachingBackend::check_whole(const SharedArena& shared, std::string_view what) const {
  const Arena& arena = shared.arena;
  check<DeviceError>(arena.pieces_in_use() == 0,
                     "{}: of the {} bytes of its arena, {} in {} blocks that were lent are still held", what,
                     arena.bytes(), arena.in_use(), arena.pieces_in_use());
}

/// An arena that has lost its recordings goes with the last of its blocks.
void CachingBackend::free_if_left(const std::shared_ptr<SharedArena>& shared) noexcept {
  if (shared->recordings > 0 || shared->arena.pieces_in_use() > 0) return;
  void* base = shared->arena.base();
  arenas_.erase(static_cast<const char*>(base));
  give_back_counted(base, shared->arena.bytes());
}

void CachingBackend::start_lending() {
  const std::lock_guard lock(mutex_);
  ++borrowers_[std::this_thread::get_id()];
}

void CachingBackend::stop_lending() noexcept {
  const std::lock_guard lock(mutex_);
  const auto borrower = borrowers_.find(std::this_thread::get_id());
  if (borrower != borrowers_.end() && --borrower->second == 0) borrowers_.erase(borrower);
}

std::size_t CachingBackend::bytes_lent() const {
  const std::lock_guard lock(mutex_);
  std::size_t lent = 0;
  for (const auto& [base, shared] : arenas_)
    if (shared->recordings > 0 && (recorder_ == nullptr || recorder_->shared != shared)) lent += shared->arena.in_use();
  return lent;
}

/// From the system, without what is cached where it has no more.
void* CachingBackend::obtain_counted(std::size_t capacity) {
  void* block = obtain(capacity);
  if (block == nullptr) {
    trim_locked();
    block = obtain(capacity);
  }
  if (block != nullptr) reserved_ += capacity;
  return block;
}

void CachingBackend::give_back_counted(void* block, std::size_t capacity) noexcept {
  reserved_ -= capacity;
  give_back(block, capacity);
}

std::string CachingBackend::no_memory_for(std::size_t bytes) const {
  std::size_t idle = 0;
  for (const auto& [base, shared] : arenas_) idle += shared->arena.bytes() - shared->arena.in_use();
  return out_of_memory(bytes, in_use_ + idle);
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

std::size_t CachingBackend::bytes_reserved() const {
  std::lock_guard lock(mutex_);
  return reserved_;
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
      give_back_counted(block, capacity);
    }
  }
  cache_.clear();
}

}  // namespace binade
