#include "binade/core/ops/output_view.h"

#include <algorithm>

namespace binade::ops {

bool ConcatBuffer::fits(const Shape& whole, DType dtype, Device device) const {
  return whole_.shape() == whole && whole_.dtype() == dtype && whole_.device() == device;
}

Tensor ConcatBuffer::take(std::int64_t begin, const Shape& shape, DType dtype, Device device) {
  const auto channels = static_cast<std::int64_t>(free_.size());
  check<ArgumentError>(shape.rank() >= 1 && begin >= 0 && begin <= channels - shape.cols(),
                       "output view: wanted channels inside {}, got {} from {} on", channels, shape, begin);
  const auto first = free_.begin() + begin, last = first + shape.cols();
  if (std::find(first, last, false) != last) return Tensor::empty(shape, dtype, device);
  const Shape all = shape.with_dim(-1, channels);
  const Tensor whole = whole_.defined() ? whole_ : Tensor::empty(all, dtype, device);
  if (whole_.defined() && !fits(all, dtype, device)) return Tensor::empty(shape, dtype, device);
  Tensor slice = whole.channel_slice(begin, shape.cols());
  if (!has_aligned_rows(slice)) return Tensor::empty(shape, dtype, device);
  std::fill(first, last, false);
  left_ -= shape.cols();
  whole_ = left_ > 0 ? whole : Tensor();
  return slice;
}

bool has_aligned_rows(const Tensor& slice) {
  constexpr std::size_t kPack = 16;
  return slice.contiguous() || (reinterpret_cast<std::uintptr_t>(slice.raw()) % kPack == 0 &&
                                static_cast<std::size_t>(slice.pitch()) * size_of(slice.dtype()) % kPack == 0);
}

}  // namespace binade::ops
