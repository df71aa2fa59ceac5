#pragma once

#include <mutex>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::nn {

/// Constant tensors of a module, such as masks. A tensor is made when the module first needs it and is kept, so that
/// later steps copy nothing from the host. Tensors are found by shape, dtype and device; the newest four are kept.
/// Threads may use the cache at the same time.
class ConstantCache {
 public:
  ConstantCache() = default;
  ConstantCache(ConstantCache&& other) noexcept : kept_(std::move(other.kept_)) {}
  ConstantCache& operator=(ConstantCache&& other) noexcept {
    kept_ = std::move(other.kept_);
    return *this;
  }

  /// Returns the tensor of this shape, dtype and device; if it is not in the cache, calls make() to make it.
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
