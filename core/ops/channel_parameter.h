#pragma once

#include "binade/core/ops/op.h"

/// Weights, biases and statistics of one value per channel, as the norms take them; each may be left out.
namespace binade::ops {

/// Throws unless `p` is left out or a floating tensor of shape (cols).
void check_channel_parameter(const OpInfo& info, const char* name, const Tensor& p, std::int64_t cols);

/// A parameter as kernels read it; undefined stays undefined.
inline Tensor parameter_as(const Tensor& p, DType dtype) {
  return p.defined() ? p.to(dtype).contiguous_copy() : Tensor();
}

inline const void* raw_or_null(const Tensor& t) { return t.defined() ? t.raw() : nullptr; }

}  // namespace binade::ops
