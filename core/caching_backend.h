#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

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

 private:
  /// What trace() notes: what its thread takes, and when anybody gives that back.
  struct Tracing {
    std::thread::id thread;
    MemoryTrace trace;
    std::unordered_map<void*, std::size_t> alive;  // block of memory -> block of the trace
    std::int64_t event = 0;
  };

  void* take(std::size_t bytes);
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
};

}  // namespace binade
