#pragma once

#include "binade/core/kernels/table.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

// Shared by matmul, linear and their gradients.

/// Whether products stored in `store` add `bias` in its own 16 bits (OpInfo::low_on_gpu); in f32 else.
inline bool takes_low_bias(const Tensor& bias, DType store) {
  return bias.defined() && is_half(store) && bias.dtype() == store && kernels(bias.device()).low_bias;
}

/// Where the product that is the gradient of input i goes: products can add to what is there in the dtypes that sums
/// are kept in.
inline GradSink::Sum gradient_of_product(const OpContext& ctx, GradSink& gx, int i) {
  if (is_half(ctx.inputs[static_cast<std::size_t>(i)].grad_dtype)) return {gx.destination(i), false};
  return gx.add_to(i);
}

/// The gradient of input i, a bias: sums of gy (contiguous) over everything but its last dimension. Nothing where it is
/// not wanted.
void bias_gradient(const Tensor& gy, GradSink& gx, int i);

}  // namespace binade::ops
