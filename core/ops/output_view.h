#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "binade/core/tensor.h"

/// Output views: ops write their results next to each other in one tensor, so that a later concat need not copy them.
namespace binade::ops {

/// A tensor (…, channels) for one forward pass. take() hands out its channels, which ops write their results to. The
/// tensor is allocated by the first call of take(), and released by the buffer when all channels are handed out. take()
/// returns a separate tensor instead if the channels were handed out before (to a segment that is now recomputed), if
/// extents, dtype or device differ from those of the first call, or if the rows would not be aligned. The bits of
/// results do not depend on where they are stored.
class ConcatBuffer {
 public:
  explicit ConcatBuffer(std::int64_t channels) : free_(static_cast<std::size_t>(channels), true), left_(channels) {}
  /// Returns an uninitialized tensor of `shape`: channels [begin, begin + shape.cols()) if possible.
  Tensor take(std::int64_t begin, const Shape& shape, DType dtype, Device device);

 private:
  bool fits(const Shape& whole, DType dtype, Device device) const;

  std::vector<bool> free_;  // per channel: true if not handed out
  std::int64_t left_;       // number of channels that are not handed out
  Tensor whole_;
};

/// Where an op stores its result: in the channels of `buffer` from `begin` on.
/// If `buffer` is null, the op stores it in a new tensor.
struct OutputView {
  std::shared_ptr<ConcatBuffer> buffer{};
  std::int64_t begin = 0;

  Tensor empty(const Shape& shape, DType dtype, Device device) const {
    return buffer ? buffer->take(begin, shape, dtype, device) : Tensor::empty(shape, dtype, device);
  }
};

/// True if the tensor is contiguous or all its rows begin at addresses that are multiples of 16 bytes. For other
/// slices, kernels could add in another order, which would change the last bits of a result.
bool has_aligned_rows(const Tensor& slice);

using Room [[deprecated("use ConcatBuffer")]] = ConcatBuffer;
using Into [[deprecated("use OutputView")]] = OutputView;

}  // namespace binade::ops
