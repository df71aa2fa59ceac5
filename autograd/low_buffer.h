#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "binade/core/tensor.h"

namespace binade {

/// One buffer for the 16-bit copies of many parameters. It is allocated when the first copy is requested, and gets the
/// dtype of that copy. Parts that are never requested are not written, and take no physical memory on a CPU.
class LowBuffer {
 public:
  LowBuffer(std::int64_t size, Device device) : size_(size), device_(device) {}

  /// Returns the elements from `begin` on as a view of `shape`, with its own version count. Returns an undefined tensor
  /// if the buffer has another dtype or `dtype` is not 16-bit.
  Tensor at(std::int64_t begin, const Shape& shape, DType dtype) {
    if (!is_half(dtype)) return {};
    const std::lock_guard lock(mutex_);
    if (!flat_.defined()) flat_ = Tensor::empty(Shape{size_}, dtype, device_);
    return flat_.dtype() == dtype ? flat_.view_at(begin, shape).with_own_version() : Tensor();
  }
  /// True if the tensor is stored in this buffer.
  bool holds(const Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    return tensor.shares_storage_with(flat_);
  }

 private:
  std::int64_t size_;
  Device device_;
  std::mutex mutex_;  // guards flat_: threads may request the first copies of different parameters at the same time
  Tensor flat_;
};

}  // namespace binade
