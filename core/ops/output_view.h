#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "binade/core/tensor.h"

/// Output views: ops write their results next to each other in one tensor, so that a later concat copies nothing.
namespace binade::ops {

/// A tensor (…, channels) for one forward pass, which ops write their results into. It is allocated with the first
/// slice, and its reference is dropped when all channels are handed out. Each channel is handed out once. A request
/// gets a separate tensor if its channels were handed out before (a recomputed segment), if its extents, dtype or
/// device differ from those of the first, or if its rows would not be aligned. The bits of results do not depend on it.
class ConcatBuffer {
 public:
  explicit ConcatBuffer(std::int64_t channels) : free_(static_cast<std::size_t>(channels), true), left_(channels) {}
  /// Returns an uninitialized tensor of `shape`: channels [begin, begin + shape.cols()) if possible.
  Tensor take(std::int64_t begin, const Shape& shape, DType dtype, Device device);

 private:
  bool fits(const Shape& whole, DType dtype, Device device) const;

  std::vector<bool> free_;  // per channel: not handed out
  std::int64_t left_;
  Tensor whole_;
};

/// Where an op stores its result: channels of a buffer from `begin` on or, without a buffer, a tensor of its own.
struct OutputView {
  std::shared_ptr<ConcatBuffer> buffer{};
  std::int64_t begin = 0;

  Tensor empty(const Shape& shape, DType dtype, Device device) const {
    return buffer ? buffer->take(begin, shape, dtype, device) : Tensor::empty(shape, dtype, device);
  }
};

/// True if the tensor is contiguous or all its rows begin at multiples of 16 bytes. Kernels split sums by alignment, so
/// other slices could change the last bits of a result.
bool has_aligned_rows(const Tensor& slice);

using Room [[deprecated("use ConcatBuffer")]] = ConcatBuffer;
using Into [[deprecated("use OutputView")]] = OutputView;

}  // namespace binade::ops
