#pragma once

#include <string_view>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/input_gradient.h"

namespace binade::ops {

// Code that linear, projections, matmul and their gradients share.

/// True if a product whose result is stored in dtype `store` reads `bias` in 16 bits (OpInfo::low_on_gpu); otherwise it
/// reads the bias in f32.
inline bool takes_low_bias(const Tensor& bias, DType store) {
  return bias.defined() && is_half(store) && bias.dtype() == store && kernels(bias.device()).low_bias;
}

/// Returns where to store a product that is the gradient of input i, and whether to add it to existing values; a 16-bit
/// gradient is never added.
inline GradSink::Sum gradient_of_product(const OpContext& ctx, GradSink& gx, int i) {
  if (is_half(ctx.inputs[static_cast<std::size_t>(i)].grad_dtype)) return {gx.destination(i), false};
  return gx.add_to(i);
}

/// Throws ShapeError or DTypeError unless x (..., in), w (out, in) and bias (out), which may be undefined, fit. The
/// names are for error texts.
void check_linear(const char* op, const Tensor& x, const Tensor& w, const Tensor& bias, std::string_view w_name = "w",
                  std::string_view bias_name = "bias");

/// Describes y = x w^T. Rows of w are `w_row` elements apart.
GemmArgs forward_product(const OpContext& ctx, const Tensor& x, const void* w, std::int64_t w_row, Tensor& y);
/// Describes gx = gz w, with rows of w `w_row` elements apart. gz is contiguous.
GemmArgs input_gradient_product(const OpContext& ctx, const Tensor& gz, const void* w, std::int64_t w_row, Tensor& gx);
/// Describes gw = gz^T x, with gw of dtype `out`. gz is contiguous.
GemmArgs weight_gradient_product(const OpContext& ctx, const Tensor& gz, const Tensor& x, DType out, void* gw);

/// Computes the gradient of input i, a bias, if it is needed: sums of gy (contiguous) over all dimensions but the last.
inline void bias_gradient(const Tensor& gy, GradSink& gx, int i) {
  InputGradient gb(gx, i, accumulate_dtype(gy.dtype()));
  if (!gb.needed()) return;
  kernels(gy.device()).column_sums({gy.raw(), gy.dtype(), gy.shape().rows(), gy.shape().cols(), gy.pitch(), gb.raw()});
  gb.finish();
}

}  // namespace binade::ops
