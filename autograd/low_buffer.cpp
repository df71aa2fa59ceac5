#include "binade/autograd/low_buffer.h"

namespace binade {

Tensor LowBuffer::at(std::int64_t begin, const Shape& shape, DType dtype) {
  if (!is_half(dtype)) return {};
  if (!flat_.defined()) flat_ = Tensor::empty(Shape{size_}, dtype, device_);
  if (flat_.dtype() != dtype) return {};
  return flat_.view_at(begin, shape).apart();
}

}  // namespace binade
