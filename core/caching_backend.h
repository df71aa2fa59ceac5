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

/// The part of a backend that all devices share: released blocks are kept by size and handed out again, so that a
/// training step asks the system for nothing once its sizes have been seen. What obtains memory is left to the device.
///
/// Recordings work in arenas, one of them at a time on the one stream. A recording takes the smallest arena there is
/// that holds its plan; where there is none, one of just its size is made for it, and the smaller ones stay for as long
/// as recordings that lie there. Between runs, arenas are lent (LentArenas).
class CachingBackend : public Backend {
 public:
  void* allocate(std::size_t bytes, Stream stream) final;
  void release(void* memory, std::size_t bytes, Stream stream) noexcept final;
  void trim() noexcept final;
  std::size_t bytes_in_use() const final;
  std::size_t bytes_peak() const final;
  void reset_peak() final;
  std::size_t bytes_reserved() const final;
  MemoryTrace trace(const std::function<void()>& body) final;
  void start_lending() final;
  void stop_lending() noexcept final;
  std::size_t bytes_lent() const final;

 protected:
  /// `capacity` bytes from the system, or null when it has none.
  virtual void* obtain(std::size_t capacity) = 0;
  virtual void give_back(void* block, std::size_t capacity) noexcept = 0;
  /// The text of the OutOfMemoryError: `bytes` more were asked for beside `in_use`, arenas among it.
  virtual std::string out_of_memory(std::size_t bytes, std::size_t in_use) const = 0;

  /// Memory that recordings share.
  struct SharedArena {
    Arena arena;
    int recordings = 0;  // living ones
  };
  /// The memory that a recording works in: an arena, and blocks that stay as they are while it lives.
  struct RecordedMemory {
    PlannedBlocks blocks;
    std::shared_ptr<SharedArena> shared{};  // null: the plan has no bytes
    std::vector<void*> held{};
    std::thread::id thread{};

    Arena* arena() const { return shared != nullptr ? &shared->arena : nullptr; }
  };
  /// From here on this thread takes memory from an arena, as planned by `trace`. Throws OutOfMemoryError, and
  /// DeviceError where the arena for it is lent.
  std::shared_ptr<RecordedMemory> begin_recording(const MemoryTrace& trace);
  /// No longer; throws DeviceError where the body did not take what the trace says.
  void end_recording();
  /// The recording is gone: what was held for it may be taken by others.
  void release_recorded(const std::shared_ptr<RecordedMemory>& memory) noexcept;
  /// Calls send(), which sends a run of the recording to the device; nobody is lent an arena meanwhile. Throws
  /// DeviceError instead where its arena is lent.
  void run_recorded(const RecordedMemory& memory, const std::function<void()>& send);

 private:
  /// What trace() notes: what its thread takes, and when anybody gives that back.
  struct Tracing {
    std::thread::id thread{};
    MemoryTrace trace{};
    std::unordered_map<void*, std::size_t> alive{};  // block of memory -> block of the trace
    std::int64_t event = 0;
  };

  /// A block that a recording's kernels know by its address, and how many recordings do.
  struct Held {
    int recordings = 0;
    std::size_t given_back = 0;  // its bytes, once its owner has given it back
  };

  void* take(std::size_t bytes);
  void* take_lent(std::size_t bytes);
  void* take_recorded(std::size_t bytes);
  void put_back(void* memory) noexcept;
  bool records_here() const { return recorder_ != nullptr && recorder_->thread == std::this_thread::get_id(); }
  void hold(void* memory);
  std::shared_ptr<SharedArena> arena_of(const void* memory) const;
  std::shared_ptr<SharedArena> arena_for(std::size_t bytes);
  void check_whole(const SharedArena& shared, std::string_view what) const;
  void* obtain_counted(std::size_t capacity);
  void give_back_counted(void* block, std::size_t capacity) noexcept;
  std::string no_memory_for(std::size_t bytes) const;
  void free_if_left(const std::shared_ptr<SharedArena>& shared) noexcept;
  void note_taken(void* memory, std::size_t bytes);
  void note_given_back(void* memory);
  void* take_cached(std::size_t capacity);
  void count(std::size_t bytes);
  void trim_locked() noexcept;

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cache_;
  std::unordered_map<void*, std::size_t> capacity_of_;
  std::size_t in_use_ = 0;
  std::size_t peak_ = 0;
  std::size_t reserved_ = 0;
  Tracing* tracing_ = nullptr;
  std::shared_ptr<RecordedMemory> recorder_;                    // while something is recorded
  std::map<const char*, std::shared_ptr<SharedArena>> arenas_;  // by where they begin
  std::map<std::thread::id, int> borrowers_;                    // threads that are lent arenas, how many times over
  int sending_ = 0;                                             // runs that are being sent
  std::unordered_map<void*, Held> held_;
};

}  // namespace binade
