#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "binade/core/tensor.h"

/// Results of several ops that lie side by side from the beginning, so that their concatenation copies nothing.
namespace binade::ops {

/// One tensor (…, channels) for one forward call. It is made when the first of its slices is asked for, and let go when
/// all its channels have been given out: it lives as long as what was written into it. Channels are given out once:
/// who asks for them again (a segment that is run once more in backward) gets a tensor of its own, and so does who asks
/// for other extents, another dtype or device than the first, or for a slice that is not has_aligned_rows(). No bit of
/// a result hangs on which it got.
class ConcatBuffer {
 public:
  explicit ConcatBuffer(std::int64_t channels) : free_(static_cast<std::size_t>(channels), true), left_(channels) {}
  /// An uninitialized tensor of `shape`: channels [begin, begin + shape.cols()) where they can be given.
  Tensor take(std::int64_t begin, const Shape& shape, DType dtype, Device device);

 private:
  bool fits(const Shape& whole, DType dtype, Device device) const;

  std::vector<bool> free_;  // a channel: not given out
  std::int64_t left_;
  Tensor whole_;
};

/// Where an op lays its result: channels from `begin` on of a buffer, or, without one, in a tensor of its own.
struct OutputView {
  std::shared_ptr<ConcatBuffer> buffer{};
  std::int64_t begin = 0;

  Tensor empty(const Shape& shape, DType dtype, Device device) const {
    return buffer ? buffer->take(begin, shape, dtype, device) : Tensor::empty(shape, dtype, device);
  }
};

/// Whether rows begin where kernels of a device read 16 bytes at a time, as those of a dense tensor do: how sums are
/// cut depends on it, and so their last bits.
bool has_aligned_rows(const Tensor& slice);

using Room [[deprecated("use ConcatBuffer")]] = ConcatBuffer;
using Into [[deprecated("use OutputView")]] = OutputView;

}  // namespace binade::ops
