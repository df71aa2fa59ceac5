#pragma once

#include <array>
#include <cstring>

#include "binade/io/exchange/safetensors.h"

namespace binade::io {

/// Permutes the axes of a rank-4 tensor: extent i of the result is t.dim(order[i]).
inline Tensor permuted(const Tensor& t, const std::array<int, 4>& order) {
  const Tensor source = t.on_host();
  const Shape shape{source.dim(order[0]), source.dim(order[1]), source.dim(order[2]), source.dim(order[3])};
  Tensor result = Tensor::empty(shape, source.dtype());
  if (source.numel() == 0) return result;
  std::array<std::int64_t, 4> stride{}, moved{};
  stride[3] = 1;
  for (std::size_t i = 3; i-- > 0;) stride[i] = stride[i + 1] * source.dim(static_cast<int>(i) + 1);
  for (std::size_t i = 0; i < 4; ++i) moved[i] = stride[static_cast<std::size_t>(order[i])];
  const std::size_t size = size_of(source.dtype());
  const auto* from = static_cast<const std::byte*>(source.raw());
  auto* to = static_cast<std::byte*>(result.mutable_raw());
  for (std::int64_t a = 0; a < shape.dim(0); ++a)
    for (std::int64_t b = 0; b < shape.dim(1); ++b)
      for (std::int64_t c = 0; c < shape.dim(2); ++c)
        for (std::int64_t d = 0; d < shape.dim(3); ++d, to += size)
          std::memcpy(to,
                      from + static_cast<std::size_t>(a * moved[0] + b * moved[1] + c * moved[2] + d * moved[3]) * size,
                      size);
  return result;
}

/// Permutes the axes of all tensors of rank 4; the others are unchanged.
inline TensorMap permuted(TensorMap tensors, const std::array<int, 4>& order) {
  for (auto& [name, tensor] : tensors)
    if (tensor.rank() == 4) tensor = permuted(tensor, order);
  return tensors;
}

/// Transposes a matrix.
inline Tensor transposed(const Tensor& t) {
  return permuted(t.on_host().reshape({1, 1, t.dim(0), t.dim(1)}), {0, 1, 3, 2}).reshape({t.dim(1), t.dim(0)});
}

/// Returns a copy of the columns [begin, begin + count) of the last axis.
inline Tensor columns(const Tensor& t, std::int64_t begin, std::int64_t count) {
  return t.channel_slice(begin, count).clone();
}

}  // namespace binade::io
