#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "binade/cuda/device/context.cuh"

namespace binade::cuda {

/// Sorts the positions 0 … count - 1 by their keys, and positions with equal keys in ascending order, by a radix sort
/// from the lowest digit up. sort() may be called again with keys that are written in the order of positions();
/// positions with equal keys then keep this order, so that a long key is sorted word by word, the lowest first. Owns
/// its memory.
class PositionSort {
 public:
  /// REQUIRES count < 2^31.
  explicit PositionSort(std::int64_t count);

  /// The keys, to be written before sort(): in position order, or in the order of the last sort().
  std::uint32_t* keys() { return keys_[sorted_index_].data(); }
  /// REQUIRES that no key is larger than `largest_key`.
  void sort(std::uint32_t largest_key);

  const std::uint32_t* sorted_keys() const { return keys_[sorted_index_].data(); }
  const std::uint32_t* positions() const { return positions_[sorted_index_].data(); }

 private:
  std::int64_t count_, tiles_;
  int sorted_index_ = 0;
  bool ordered_ = false;  // true after the first sort()
  Buffer<std::uint32_t> keys_[2], positions_[2], starts_;
};

}  // namespace binade::cuda
