#pragma once

#include <cstdint>
#include <memory>

#include "binade/core/tensor.h"

namespace binade {

/// Where the 16-bit copies of many parameters lie side by side. Taken from the device when the first is asked for,
/// whose dtype it has from then on; what is never asked for is never written, and costs a CPU no page.
class LowBuffer {
 public:
  LowBuffer(std::int64_t size, Device device) : size_(size), device_(device) {}

  /// Elements from `begin` on as `shape`, with a version of their own; undefined where the buffer has another dtype,
  /// or `dtype` has not 16 bits.
  Tensor at(std::int64_t begin, const Shape& shape, DType dtype);
  /// Whether the tensor lies here.
  bool holds(const Tensor& tensor) const { return tensor.shares_storage_with(flat_); }

 private:
  std::int64_t size_;
  Device device_;
  Tensor flat_;
};

/// The place of one parameter's copy in a buffer; none by default.
struct LowPlace {
  std::shared_ptr<LowBuffer> buffer{};
  std::int64_t begin = 0;
};

}  // namespace binade
