#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "binade/cuda/device/context.cuh"

namespace binade::cuda {

/// Sorts the positions 0 … count - 1 by their keys, and positions with equal keys in ascending order, by a radix sort
/// from the lowest digit up. Owns its memory.
class PositionSort {
 public:
  /// REQUIRES count < 2^31.
  explicit PositionSort(std::int64_t count);

  std::uint32_t* keys() { return keys_[0].data(); }  ///< keys in position order, to be written before sort()
  /// REQUIRES that no key is larger than `largest_key`.
  void sort(std::uint32_t largest_key);

  const std::uint32_t* sorted_keys() const { return keys_[sorted_index_].data(); }
  const std::uint32_t* positions() const { return positions_[sorted_index_].data(); }

 private:
  std::int64_t count_, tiles_;
  int sorted_index_ = 0;
  Buffer<std::uint32_t> keys_[2], positions_[2], starts_;
};

}  // namespace binade::cuda
