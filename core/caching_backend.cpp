#include "binade/core/caching_backend.h"

#include <algorithm>
#include <new>

#include "binade/core/error.h"
#include "binade/core/scope.h"

namespace binade {
namespace {

constexpr std::size_t kSmallest = 64;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// Returns the size of the block for a request: eight sizes per power of two, so that blocks are reused and at most 1/8
/// of a block is unused.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= 512) return round_up(bytes, kSmallest);
  std::size_t power = 512;
  while (power * 2 <= bytes) power *= 2;
  return round_up(bytes, power / 8);
}

}  // namespace

void* CachingBackend::allocate(std::size_t bytes, Stream) {
  std::lock_guard lock(mutex_);
  void* memory = captures_here() ? allocate_planned(bytes) : borrow(bytes);
  if (memory == nullptr) memory = allocate_block(bytes);
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  if (tracing_ != nullptr) note_allocated(memory, bytes);
  return memory;
}

void* CachingBackend::allocate_block(std::size_t bytes) {
  const std::size_t capacity = size_class(bytes);
  if (void* block = take_cached(capacity)) return block;
  void* block = allocate_counted(capacity);
  if (block == nullptr) throw OutOfMemoryError(out_of_memory_text(bytes));
  try {
    capacity_of_[block] = capacity;
  } catch (...) {
    release_counted(block, capacity);
    throw;
  }
  return block;
}

/// Lends this thread `bytes` of an arena, or returns null. Lends nothing while a captured graph is being submitted,
/// because the borrower's work could reach the device before the graph, which would then overwrite the borrowed memory.
void* CachingBackend::borrow(std::size_t bytes) {
  if (arenas_.empty() || submitting_ > 0 || capture_ != nullptr || !borrowers_.contains(std::this_thread::get_id()))
    return nullptr;
  for (const auto& [base, shared] : arenas_) {
    if (shared->recordings == 0)
      continue;  // no graph uses it: it is freed as soon as its last borrowed chunk is released
    if (void* memory = shared->arena.allocate(bytes)) return memory;
  }
  return nullptr;
}

void CachingBackend::release(void* memory, std::size_t bytes, Stream) noexcept {
  std::lock_guard lock(mutex_);
  if (tracing_ != nullptr) note_released(memory);
  const bool planned = capture_ != nullptr && capture_->shared != nullptr && capture_->shared->arena.owns(memory);
  try {
    if (captures_here() && !planned) hold(memory);
  } catch (const std::bad_alloc&) {
    return;  // no memory for the list: the block is leaked, because captured kernels may write to it
  }
  if (const auto held = held_.find(memory); held != held_.end()) {
    held->second.released_bytes = bytes;
    return;
  }
  in_use_ -= bytes;
  recycle(memory);
}

void CachingBackend::recycle(void* memory) noexcept {
  if (const std::shared_ptr<SharedArena> shared = arena_of(memory)) {
    shared->arena.release(memory);
    free_if_unused(shared);
    return;
  }
  const auto found = capacity_of_.find(memory);
  try {
    cache_[found->second].push_back(memory);
  } catch (const std::bad_alloc&) {  // no memory for the list: return the block to the system
    release_counted(memory, found->second);
    capacity_of_.erase(found);
  }
}

MemoryTrace CachingBackend::trace(const std::function<void()>& body) {
  Tracing tracing;
  {
    const std::lock_guard lock(mutex_);
    check<DeviceError>(tracing_ == nullptr, "trace: a body is being traced already");
    tracing_ = &tracing;
  }
  {
    const AtScopeExit end([this] {
      const std::lock_guard lock(mutex_);
      tracing_ = nullptr;
    });
    body();
  }
  return std::move(tracing.trace);
}

std::shared_ptr<CachingBackend::CapturedMemory> CachingBackend::begin_capture(const MemoryTrace& trace) {
  MemoryPlan plan = plan_memory(trace, Arena::kAlignment);
  const std::size_t bytes = plan.bytes;
  const std::lock_guard lock(mutex_);
  check<DeviceError>(capture_ == nullptr, "capture: another graph is being captured");
  auto memory = std::make_shared<CapturedMemory>(CapturedMemory{.blocks = PlannedBlocks(trace, std::move(plan))});
  if (bytes > 0) {
    memory->shared = arena_with(bytes);
    ++memory->shared->recordings;
  }
  capture_ = memory;
  return memory;
}

void CachingBackend::end_capture() {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<CapturedMemory> ended = std::move(capture_);
  ended->blocks.check_done(ended->arena());
}

void CachingBackend::release_captured(const std::shared_ptr<CapturedMemory>& memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (capture_ == memory) capture_ = nullptr;
  for (void* block : memory->held) {
    const auto held = held_.find(block);
    if (--held->second.recordings > 0) continue;
    const std::size_t released_bytes = held->second.released_bytes;
    held_.erase(held);
    if (released_bytes == 0) continue;
    in_use_ -= released_bytes;
    recycle(block);
  }
  if (memory->shared == nullptr) return;
  --memory->shared->recordings;
  free_if_unused(memory->shared);
}

void CachingBackend::run_captured(const CapturedMemory& memory, const std::function<void()>& submit) {
  {
    const std::lock_guard lock(mutex_);
    // While a graph is captured, the chunks that are in use in its arena belong to the capture and are not on loan, so
    // other graphs that share the arena may run.
    const bool capturing = capture_ != nullptr && capture_->shared == memory.shared;
    if (memory.shared != nullptr && !capturing) check_not_on_loan(*memory.shared, "the captured graph cannot run");
    peak_ = std::max(peak_, in_use_ + memory.blocks.plan().bytes);
    ++submitting_;
  }
  const AtScopeExit submitted([this] {
    const std::lock_guard lock(mutex_);
    --submitting_;
  });
  submit();
}

void* CachingBackend::allocate_planned(std::size_t bytes) {
  if (void* planned = capture_->blocks.allocate(capture_->arena(), bytes)) return planned;
  void* memory = allocate_block(bytes);
  try {
    hold(memory);
  } catch (...) {
    recycle(memory);
    throw;
  }
  return memory;
}

void CachingBackend::hold(void* memory) {
  capture_->held.push_back(memory);
  try {
    ++held_[memory].recordings;
  } catch (...) {
    capture_->held.pop_back();
    throw;
  }
}

std::shared_ptr<CachingBackend::SharedArena> CachingBackend::arena_of(const void* memory) const {
  auto found = arenas_.upper_bound(static_cast<const char*>(memory));
  if (found == arenas_.begin() || !(--found)->second->arena.owns(memory)) return nullptr;
  return found->second;
}

/// Returns the smallest existing arena of at least `bytes`, or a new one if there is none.
std::shared_ptr<CachingBackend::SharedArena> CachingBackend::arena_with(std::size_t bytes) {
  std::shared_ptr<SharedArena> smallest;
  for (const auto& [base, shared] : arenas_) {
    if (shared->recordings == 0 || shared->arena.bytes() < bytes) continue;
    if (smallest == nullptr || shared->arena.bytes() < smallest->arena.bytes()) smallest = shared;
  }
  if (smallest != nullptr) {
    check_not_on_loan(*smallest, "no graph can be captured");
    return smallest;
  }
  void* base = allocate_counted(bytes);
  if (base == nullptr) throw OutOfMemoryError(out_of_memory_text(bytes));
  try {
    auto made = std::make_shared<SharedArena>(SharedArena{.arena = Arena(base, bytes)});
    arenas_[static_cast<const char*>(base)] = made;
    return made;
  } catch (...) {
    release_counted(base, bytes);
    throw;
  }
}

void CachingBackend::check_not_on_loan(const SharedArena& shared, std::string_view what) const {
  const Arena& arena = shared.arena;
  check<DeviceError>(arena.chunks_in_use() == 0, "{}: {} of the {} bytes of its arena are still on loan, in {} blocks",
                     what, arena.in_use(), arena.bytes(), arena.chunks_in_use());
}

/// Frees the arena if no graph and no block uses it.
void CachingBackend::free_if_unused(const std::shared_ptr<SharedArena>& shared) noexcept {
  if (shared->recordings > 0 || shared->arena.chunks_in_use() > 0) return;
  void* base = shared->arena.base();
  arenas_.erase(static_cast<const char*>(base));
  release_counted(base, shared->arena.bytes());
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
    if (shared->recordings > 0 && (capture_ == nullptr || capture_->shared != shared)) lent += shared->arena.in_use();
  return lent;
}

/// Allocates `capacity` bytes from the system. If the system has none, returns all cached blocks to it and tries again.
/// Returns null if that fails too.
void* CachingBackend::allocate_counted(std::size_t capacity) {
  void* block = allocate_from_system(capacity);
  if (block == nullptr) {
    trim_locked();
    block = allocate_from_system(capacity);
  }
  if (block != nullptr) reserved_ += capacity;
  return block;
}

void CachingBackend::release_counted(void* block, std::size_t capacity) noexcept {
  reserved_ -= capacity;
  release_to_system(block, capacity);
}

std::string CachingBackend::out_of_memory_text(std::size_t bytes) const {
  std::size_t idle = 0;
  for (const auto& [base, shared] : arenas_) idle += shared->arena.bytes() - shared->arena.in_use();
  return out_of_memory(bytes, in_use_ + idle);
}

void CachingBackend::note_allocated(void* memory, std::size_t bytes) {
  Tracing& t = *tracing_;
  if (t.thread != std::this_thread::get_id()) return;
  t.alive[memory] = t.trace.blocks.size();
  t.trace.blocks.push_back({.bytes = bytes, .allocated = t.event++});
}

void CachingBackend::note_released(void* memory) {
  Tracing& t = *tracing_;
  const auto found = t.alive.find(memory);
  if (found == t.alive.end()) return;
  t.trace.blocks[found->second].released = t.event++;
  t.alive.erase(found);
}

void CachingBackend::trim() noexcept {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void CachingBackend::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = in_use_;
}

void* CachingBackend::take_cached(std::size_t capacity) {
  // A cached block may be up to a quarter larger than needed.
  for (auto it = cache_.lower_bound(capacity); it != cache_.end() && it->first <= capacity + capacity / 4; ++it) {
    if (it->second.empty()) continue;
    void* block = it->second.back();
    it->second.pop_back();
    return block;
  }
  return nullptr;
}

void CachingBackend::trim_locked() noexcept {
  for (auto& [capacity, blocks] : cache_) {
    for (void* block : blocks) {
      capacity_of_.erase(block);
      release_counted(block, capacity);
    }
  }
  cache_.clear();
}

}  // namespace binade
