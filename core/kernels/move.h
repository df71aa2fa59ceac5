#pragma once

#include <cstddef>
#include <cstdint>

/// Copies of whole elements of any dtype, without arithmetic.
namespace binade {

/// Copies `outer` runs of `inner` contiguous elements. Runs are from_stride elements apart in the source, and to_stride
/// elements in the destination.
struct BoxCopy {
  std::size_t element_bytes = 4;
  std::int64_t outer = 0, inner = 0;
  const void* from = nullptr;
  std::int64_t from_stride = 0;
  void* to = nullptr;
  std::int64_t to_stride = 0;
};

/// Permutes dimensions: writes a contiguous result with extents dims[0 … rank), whose elements are read with strides
/// `from_stride`.
struct PermuteCopy {
  static constexpr int kMaxRank = 8;
  std::size_t element_bytes = 4;
  int rank = 0;
  std::int64_t dims[kMaxRank] = {};         ///< extents of the output
  std::int64_t from_stride[kMaxRank] = {};  ///< stride in the source for each dimension of the output, in elements
  const void* from = nullptr;
  void* to = nullptr;
};

}  // namespace binade
