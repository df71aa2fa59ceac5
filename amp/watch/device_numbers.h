#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::amp {

/// Numbers that kernels find (core/kernels/probe.h), in their device's memory until all are brought at once. A place
/// has the same number and address in every run that asks for the same places once room was kept for them.
///
/// Otherwise memory is taken with the first place and given back when the numbers have been brought: the arena that
/// a step works in may be lent (ArenaLoan), and takes nothing that outlives it.
class DeviceNumbers {
 public:
  /// Forgets what was found. Every place holds infinity from here on.
  void begin();
  struct Place {
    std::int64_t number = 0;
    double* at = nullptr;  ///< device memory
  };
  /// The next `count` places, side by side. Throws DeviceError where room was kept for fewer.
  Place take(std::int64_t count, Device device);

  /// By number, on the host: waits for the device. begin() comes next.
  std::vector<double> bring();

  /// From here on there is room for as much as `other` has room for, and it stays where it is: for steps that are
  /// recorded.
  void keep_room(const DeviceNumbers& other);
  /// By number, in device memory. REQUIRES keep_room().
  std::span<const double> there() const;

 private:
  struct Block {
    Tensor memory{};
    std::int64_t taken = 0;
  };

  std::vector<Block> blocks_;  // the last one is filled
  std::int64_t taken_ = 0;     // of all blocks
  std::int64_t room_ = 0;      // as much as any run had
  Device device_;
  bool kept_ = false;
};

}  // namespace binade::amp
