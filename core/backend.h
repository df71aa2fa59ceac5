#pragma once

#include <cstddef>
#include <string>

#include "core/device.h"

namespace binade {

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

  virtual std::size_t bytes_in_use() const = 0;  ///< handed out now
  virtual std::size_t bytes_peak() const = 0;    ///< the most handed out so far
  virtual void reset_peak() = 0;
  virtual std::string description() const = 0;  ///< one line for people: name, memory, instruction set
};

/// The backend of a device. Throws DeviceError naming what is missing.
Backend& backend_of(Device device);

}  // namespace binade
