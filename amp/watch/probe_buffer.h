#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::amp {

/// Device memory for the results of probe kernels (core/kernels/probe.h), which are copied to the host together.
///
/// Memory is allocated with the first range and freed by copy_to_host(), because it may be in a borrowed arena
/// (ArenaLoan), which must hold no memory that outlives the step. After reserve_like() the memory is permanent: steps
/// that allocate the same ranges get the same offsets and addresses.
class ProbeBuffer {
 public:
  /// Discards all ranges and fills the memory with infinity.
  void clear();
  /// Contiguous numbers of the buffer.
  struct Range {
    std::int64_t first = 0;  ///< offset in copy_to_host()
    double* data = nullptr;  ///< device memory
  };
  /// Allocates the next `count` contiguous numbers. Throws DeviceError if reserve_like() reserved fewer.
  Range allocate(std::int64_t count, Device device);

  /// Synchronizes with the device and returns all numbers. Call clear() next.
  std::vector<double> copy_to_host();

  /// Reserves the capacity of `other` at fixed addresses, for steps that are captured.
  void reserve_like(const ProbeBuffer& other);
  /// Returns all numbers, in device memory. REQUIRES reserve_like().
  std::span<const double> device_values() const;

 private:
  /// A part of the buffer's memory.
  struct Block {
    Tensor memory{};
    std::int64_t used = 0;  // numbers allocated in `memory`
  };

  std::vector<Block> blocks_;  // only the last one has free memory
  std::int64_t used_ = 0;      // numbers in all blocks
  std::int64_t capacity_ = 0;  // largest `used_` of any step so far
  Device device_;
  bool reserved_ = false;
};

}  // namespace binade::amp
