#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "binade/core/device.h"

namespace binade {

struct MemoryTrace;
class Recording;

enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// What a device must provide. Thread-safe. Work is ordered per stream; nothing here waits unless its name says so.
/// A CUDA module fills the second one at run time; `backend_of(Device)` finds it.
class Backend {
 public:
  virtual ~Backend() = default;

  /// 64-byte aligned memory (256 on a GPU) of `bytes` > 0, usable by later work on `stream`. Contents undefined.
  /// Throws OutOfMemoryError naming the bytes asked for and held.
  virtual void* allocate(std::size_t bytes, Stream stream) = 0;
  /// Returns memory to the cache of `stream`; REQUIRES: from allocate() with the same bytes. Never throws.
  virtual void release(void* memory, std::size_t bytes, Stream stream) noexcept = 0;
  /// Gives cached, unused memory back to the system.
  virtual void trim() noexcept = 0;

  virtual void copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) = 0;
  virtual void fill_zero(void* memory, std::size_t bytes, Stream stream) = 0;
  /// Blocks the host until `stream` is done.
  virtual void synchronize(Stream stream) = 0;

  /// Host memory that copies reach while the host goes on (page-locked where the device needs that). Throws
  /// OutOfMemoryError.
  virtual void* allocate_pinned(std::size_t bytes);
  /// REQUIRES: nothing sent or recorded is still to copy from or to it.
  virtual void release_pinned(void* memory) noexcept;
  /// As copy, but between the device and memory of allocate_pinned() it does not wait: the host's part may be read, or
  /// written again, when a later mark has been reached.
  virtual void copy_later(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream);

  /// A point in the stream, behind all that has been sent.
  virtual std::uint64_t mark(Stream stream);
  /// Whether the device has come to it.
  virtual bool reached(std::uint64_t mark);
  /// Waits for that point alone: the device goes on with what was sent later. Throws what the device died of, and
  /// DataError, as synchronize() does.
  virtual void wait_for(std::uint64_t mark);

  /// Runs `body` as usual and notes what memory this thread takes meanwhile, and when that is given back.
  virtual MemoryTrace trace(const std::function<void()>& body);
  /// Records `body` instead of running it. What memory it takes lies in an arena planned by `trace`, which it shares
  /// with the living recordings that it is large enough for; what the trace keeps, and what the body gives back but
  /// took earlier, stays as it is while the recording lives. Null where the device cannot record. Throws DeviceError
  /// naming what cannot be recorded (a wait, a copy between the device and ordinary host memory, memory that the trace
  /// does not have, an arena that is lent), OutOfMemoryError where there is no memory for the arena, and what `body`
  /// throws; the device goes on as if nothing had been recorded.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& body, const MemoryTrace& trace);

  /// From here on allocate() on this thread takes memory out of the arenas of recordings, as far as it goes, until
  /// stop_lending() is called as often. See LentArenas.
  virtual void start_lending() {}
  virtual void stop_lending() noexcept {}
  /// Of the arenas of living recordings, what is in use now: those recordings do not run before it is 0.
  virtual std::size_t bytes_lent() const { return 0; }

  virtual std::size_t bytes_in_use() const = 0;  ///< handed out now
  /// The most that was in use so far. A recording that runs uses its arena.
  virtual std::size_t bytes_peak() const = 0;
  virtual void reset_peak() = 0;
  /// Held of the system now: blocks in use, cached ones, and arenas. Not what kernels and libraries have for
  /// themselves.
  virtual std::size_t bytes_reserved() const = 0;
  virtual std::string description() const = 0;  ///< one line for people: name, memory, instruction set
};

/// While it lives, this thread's tensors lie in the arenas of recordings, as far as there is room: around work whose
/// memory is given back before a recording runs again, such as a step that is made op by op between recorded ones. What
/// outlives that keeps the recordings from running (Recording::run) until it is given back.
class LentArenas {
 public:
  explicit LentArenas(Backend& backend) : backend_(backend) { backend_.start_lending(); }
  ~LentArenas() { backend_.stop_lending(); }
  LentArenas(const LentArenas&) = delete;
  LentArenas& operator=(const LentArenas&) = delete;

 private:
  Backend& backend_;
};

/// The backend of a device. Throws DeviceError naming what is missing.
Backend& backend_of(Device device);

}  // namespace binade
