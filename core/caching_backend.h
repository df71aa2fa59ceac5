#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "binade/core/arena.h"
#include "binade/core/backend.h"
#include "binade/core/memory_plan.h"

namespace binade {

/// The memory management that all devices share. Released blocks are cached by size and reused, so that a training
/// requests no memory from the system after its first step. Subclasses implement the requests to the system.
///
/// A captured graph keeps its memory in an arena. Graphs share arenas, because the device runs one graph at a time. A
/// graph uses the smallest existing arena that holds its memory plan; if there is none, a new arena is made. Arenas
/// live as long as the graphs that use them. Between executions of graphs, eager work may borrow from them (ArenaLoan).
class CachingBackend : public Backend {
 public:
  void* allocate(std::size_t bytes, Stream stream) final;
  void release(void* memory, std::size_t bytes, Stream stream) noexcept final;
  void trim() noexcept final;
  std::size_t bytes_in_use() const final { return locked(in_use_); }
  std::size_t bytes_peak() const final { return locked(peak_); }
  void reset_peak() final;
  std::size_t bytes_reserved() const final { return locked(reserved_); }
  MemoryTrace trace(const std::function<void()>& body) final;
  void start_lending() final;
  void stop_lending() noexcept final;
  std::size_t bytes_lent() const final;

 protected:
  /// Returns `capacity` bytes from the system, or null if the system has none.
  virtual void* allocate_from_system(std::size_t capacity) = 0;
  virtual void release_to_system(void* block, std::size_t capacity) noexcept = 0;
  /// Returns the text of the OutOfMemoryError for a request of `bytes` while `in_use` bytes, arenas included, are in
  /// use.
  virtual std::string out_of_memory(std::size_t bytes, std::size_t in_use) const = 0;

  /// An arena that captured graphs share.
  struct SharedArena {
    Arena arena;
    int recordings = 0;  // number of captured graphs that use it
  };
  /// The memory of a captured graph: an arena, and blocks that stay reserved while the graph lives.
  struct CapturedMemory {
    PlannedBlocks blocks;
    std::shared_ptr<SharedArena> shared{};  // null if the memory plan has size 0
    std::vector<void*> held{};              // blocks outside the arena that stay reserved
    std::thread::id thread = std::this_thread::get_id();

    Arena* arena() const { return shared != nullptr ? &shared->arena : nullptr; }
  };
  /// From now on this thread allocates from an arena, as planned from `trace`. Throws OutOfMemoryError, and DeviceError
  /// if the arena is on loan.
  std::shared_ptr<CapturedMemory> begin_capture(const MemoryTrace& trace);
  /// Ends the capture. Throws DeviceError if the captured body did not allocate and release as in the trace.
  void end_capture();
  /// Frees the memory of a destroyed graph.
  void release_captured(const std::shared_ptr<CapturedMemory>& memory) noexcept;
  /// Calls `submit`, which submits the graph that `memory` belongs to. No memory of arenas is lent during the call.
  /// Throws DeviceError without calling it if part of the graph's arena is on loan.
  void run_captured(const CapturedMemory& memory, const std::function<void()>& submit);

 private:
  /// State of trace(): the allocations of one thread, and their releases by any thread.
  struct Tracing {
    std::thread::id thread = std::this_thread::get_id();
    MemoryTrace trace{};
    std::unordered_map<void*, std::size_t> alive{};  // address -> index of the block in the trace
    std::int64_t event = 0;                          // number of the next allocation or release
  };

  /// A block that captured graphs use, so that its memory stays reserved while they live.
  struct Held {
    int recordings = 0;              // number of captured graphs that use it
    std::size_t released_bytes = 0;  // bytes of the block if its owner has released it, else 0
  };

  std::size_t locked(const std::size_t& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  /// Allocates a block, from the cache if possible. Throws OutOfMemoryError.
  void* allocate_block(std::size_t bytes);
  void* borrow(std::size_t bytes);
  /// Allocates memory for the graph that is being captured.
  void* allocate_planned(std::size_t bytes);
  /// Returns released memory to its arena or to the cache.
  void recycle(void* memory) noexcept;
  bool captures_here() const { return capture_ != nullptr && capture_->thread == std::this_thread::get_id(); }
  /// Keeps a block reserved while the graph that is being captured lives.
  void hold(void* memory);
  /// Returns the arena that `memory` belongs to, or null.
  std::shared_ptr<SharedArena> arena_of(const void* memory) const;
  std::shared_ptr<SharedArena> arena_with(std::size_t bytes);
  /// Throws DeviceError that begins with `what` if chunks of the arena are in use.
  void check_not_on_loan(const SharedArena& shared, std::string_view what) const;
  void* allocate_counted(std::size_t capacity);
  /// Returns a block to the system.
  void release_counted(void* block, std::size_t capacity) noexcept;
  std::string out_of_memory_text(std::size_t bytes) const;
  void free_if_unused(const std::shared_ptr<SharedArena>& shared) noexcept;
  /// Record an allocation or a release in the trace of the running trace().
  void note_allocated(void* memory, std::size_t bytes);
  void note_released(void* memory);
  /// Takes a block of at least `capacity` bytes from the cache. Returns null if there is none.
  void* take_cached(std::size_t capacity);
  /// Returns all cached blocks to the system. REQUIRES mutex_.
  void trim_locked() noexcept;

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cache_;
  std::unordered_map<void*, std::size_t> capacity_of_;
  std::size_t in_use_ = 0;
  std::size_t peak_ = 0;
  std::size_t reserved_ = 0;
  Tracing* tracing_ = nullptr;
  std::shared_ptr<CapturedMemory> capture_;                     // memory of the graph that is being captured, or null
  std::map<const char*, std::shared_ptr<SharedArena>> arenas_;  // by base address
  std::map<std::thread::id, int> borrowers_;                    // by thread that may borrow: open start_lending() calls
  int submitting_ = 0;                                          // number of captured graphs that are being submitted
  std::unordered_map<void*, Held> held_;
};

}  // namespace binade
