#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "binade/core/device.h"
#include "binade/core/scope.h"

namespace binade {

struct MemoryTrace;
class CapturedGraph;

/// The direction of a copy.
enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

/// Interface to a device: memory, copies, waiting and captured graphs. Thread-safe. Work is ordered per stream. No
/// function waits for the device unless its comment says so; only copy() may wait if it reads or writes host memory.
/// The CPU has one implementation; the CUDA module, loaded at run time, has another.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Returns `bytes` > 0 of memory, aligned to 64 bytes (256 on a GPU), for later work on `stream`. The contents are
  /// undefined. Throws OutOfMemoryError with the bytes requested and held.
  virtual void* allocate(std::size_t bytes, Stream stream) = 0;
  /// Returns memory to the cache of `stream`. REQUIRES: `memory` came from allocate() with the same `bytes`.
  virtual void release(void* memory, std::size_t bytes, Stream stream) noexcept = 0;
  /// Returns cached, unused memory to the system.
  virtual void trim() noexcept = 0;

  virtual void copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) = 0;
  virtual void fill_zero(void* memory, std::size_t bytes, Stream stream) = 0;
  /// Waits until all work on `stream` is done. Throws DataError if a kernel found invalid data (core/faults.h).
  virtual void synchronize(Stream stream) = 0;

  /// Allocates host memory for asynchronous copies (page-locked if the device needs that). Throws OutOfMemoryError.
  virtual void* allocate_pinned(std::size_t bytes);
  /// REQUIRES: no submitted copy and no captured graph still reads or writes this memory.
  virtual void release_pinned(void* memory) noexcept;
  /// Like copy(), but does not wait if it copies between the device and host memory from allocate_pinned(). The host
  /// may read or overwrite that memory when the device has reached a mark() that was set after this call.
  virtual void copy_later(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream);

  /// Sets a mark in the stream, after all work submitted so far, and returns its number.
  virtual std::uint64_t mark(Stream stream);
  /// True if the device has reached the mark.
  virtual bool reached(std::uint64_t mark);
  /// Waits until the device has reached the mark, but not for work submitted after it. Throws the error that stopped
  /// the device, or DataError if a kernel found invalid data, as synchronize() does.
  virtual void wait_for(std::uint64_t mark);

  /// Runs `body` and returns the order in which this thread allocated and released memory in it.
  virtual MemoryTrace trace(const std::function<void()>& body);
  /// Captures `body` as a graph instead of running it. Its memory is placed in an arena as planned from `trace`; graphs
  /// that are alive share the arena if it is large enough. Memory that `body` allocates and keeps, or releases but did
  /// not allocate, stays reserved while the graph lives. Returns null if the device cannot capture graphs. Throws
  /// DeviceError, which names what cannot be captured (a wait, a copy to or from ordinary host memory, an allocation
  /// that is not in the trace, an arena on loan), OutOfMemoryError if there is no memory for the arena, and whatever
  /// `body` throws; in each case the device continues as if nothing had been captured.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& body, const MemoryTrace& trace);

  /// From now on, allocate() on this thread borrows from the arenas of captured graphs while they have free memory,
  /// until stop_lending() has been called as often as start_lending(). Use ArenaLoan instead of calling them.
  virtual void start_lending() {}
  virtual void stop_lending() noexcept {}
  /// Returns the bytes of captured graphs' arenas on loan. A graph cannot run while part of its arena is on loan.
  virtual std::size_t bytes_lent() const { return 0; }

  virtual std::size_t bytes_in_use() const = 0;  ///< bytes allocated and not released
  /// Largest number of bytes in use so far. A captured graph counts its arena while it runs.
  virtual std::size_t bytes_peak() const = 0;
  virtual void reset_peak() = 0;  ///< bytes_peak() starts again from the bytes in use now
  /// Bytes obtained from the system: blocks in use, cached blocks and arenas, without the memory of kernels and
  /// libraries.
  virtual std::size_t bytes_reserved() const = 0;
  virtual std::string description() const = 0;  ///< name, memory, instruction set in one line
};

/// Lets this thread borrow memory from the arenas of captured graphs for the lifetime of the object. Use it around work
/// that releases its memory before a captured graph runs again, such as an eager step between captured ones. Memory
/// that is kept longer makes CapturedGraph::run() throw until it is released.
class ArenaLoan : NonCopyable {
 public:
  explicit ArenaLoan(Backend& backend) : backend_(backend) { backend_.start_lending(); }
  ~ArenaLoan() { backend_.stop_lending(); }

 private:
  Backend& backend_;
};

/// Returns the backend of a device. Throws DeviceError if the device is not available; the text says why.
Backend& backend_of(Device device);

}  // namespace binade
