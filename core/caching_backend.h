#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/arena.h"
#include "core/backend.h"
#include "core/memory_plan.h"

namespace binade {

/// The part of a backend that all devices share: released blocks are kept by size and handed out again, so that a
/// training step asks the system for nothing once its sizes have been seen. What obtains memory is left to the device.
class CachingBackend : public Backend {
 public:
  void* allocate(std::size_t bytes, Stream stream) final;
  void release(void* memory, std::size_t bytes, Stream stream) noexcept final;
  void trim() noexcept final;
  std::size_t bytes_in_use() const final;
  std::size_t bytes_peak() const final;
  void reset_peak() final;
  MemoryTrace trace(const std::function<void()>& body) final;

 protected:
  /// `capacity` bytes from the system, or null when it has none.
  virtual void* obtain(std::size_t capacity) = 0;
  virtual void give_back(void* block, std::size_t capacity) noexcept = 0;
  /// The text of the OutOfMemoryError: `bytes` more were asked for beside `in_use`.
  virtual std::string out_of_memory(std::size_t bytes, std::size_t in_use) const = 0;

  /// The memory that a recording works in: an arena, and blocks that stay as they are while it lives.
  struct RecordedMemory {
    Arena arena;
    std::size_t capacity = 0;  // obtained for the arena
    std::vector<void*> held;
    std::thread::id thread;
    bool recording_alive = true;
  };
  /// From here on this thread takes memory from the arena that is planned by `trace`. Throws OutOfMemoryError.
  std::shared_ptr<RecordedMemory> begin_recording(const MemoryTrace& trace, std::size_t alignment);
  /// No longer; throws DeviceError where the body did not take what the trace says.
  void end_recording();
  /// The recording is gone: what was held for it may be taken by others.
  void release_recorded(const std::shared_ptr<RecordedMemory>& memory) noexcept;

 private:
  /// What trace() notes: what its thread takes, and when anybody gives that back.
  struct Tracing {
    std::thread::id thread;
    MemoryTrace trace;
    std::unordered_map<void*, std::size_t> alive;  // block of memory -> block of the trace
    std::int64_t event = 0;
  };

  /// A block that a recording's kernels know by its address, and how many recordings do.
  struct Held {
    int recordings = 0;
    std::size_t given_back = 0;  // its bytes, once its owner has given it back
  };

  void* take(std::size_t bytes);
  void* take_recorded(std::size_t bytes);
  void put_back(void* memory) noexcept;
  bool records_here() const { return recorder_ != nullptr && recorder_->thread == std::this_thread::get_id(); }
  void hold(void* memory);
  bool release_into_arena(void* memory) noexcept;
  void free_arena(const RecordedMemory& memory) noexcept;
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
  Tracing* tracing_ = nullptr;
  std::shared_ptr<RecordedMemory> recorder_;                       // while something is recorded
  std::map<const char*, std::shared_ptr<RecordedMemory>> arenas_;  // by where they begin
  std::unordered_map<void*, Held> held_;
};

}  // namespace binade
