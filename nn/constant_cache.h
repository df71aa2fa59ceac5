#pragma once

#include <mutex>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::nn {

/// A few constant tensors that a module makes when it first needs them, such as masks, so that a step copies nothing
/// from the host. Threads may use it at the same time. Distinguishes tensors by shape, dtype and device, and keeps
/// those that were made last.
class ConstantCache {
 public:
  ConstantCache() = default;
  ConstantCache(ConstantCache&& other) noexcept : kept_(std::move(other.kept_)) {}
  ConstantCache& operator=(ConstantCache&& other) noexcept {
    kept_ = std::move(other.kept_);
    return *this;
  }

  /// Returns the tensor of this shape, dtype and device. Calls make(), which returns it, if it is not kept.
  template <class Make>
  Tensor get(const Shape& shape, DType dtype, Device device, const Make& make) {
    const auto fits = [&](const Tensor& t) { return t.shape() == shape && t.dtype() == dtype && t.device() == device; };
    {
      const std::lock_guard lock(mutex_);
      for (const Tensor& tensor : kept_)
        if (fits(tensor)) return tensor;
    }
    const Tensor made = make().with_counted_writes();  // without the lock: it may wait for a device
    const std::lock_guard lock(mutex_);
    if (kept_.size() == kMost) kept_.erase(kept_.begin());
    kept_.push_back(made);
    return made;
  }

 private:
  static constexpr std::size_t kMost = 4;
  std::mutex mutex_;  // guards kept_
  std::vector<Tensor> kept_;
};

}  // namespace binade::nn
