#pragma once

#include "binade/core/kernels/conv.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/op.h"
#include "binade/core/ops/output_view.h"

namespace binade::ops {

// Code that conv2d and conv_transpose2d share. The forward of each op computes the input gradient of the other.

/// Throws ArgumentError unless stride, dilation and groups are at least 1, padding is at least 0, and none exceeds
/// kMaxExtent.
void check_windows(const OpInfo& info, Extent2 stride, Extent2 padding, Extent2 dilation, std::int64_t groups);

/// Throws ShapeError unless `image` and `w` have rank 4, the filter has at least 1 pixel, and no extent exceeds
/// kMaxExtent. `wanted`: the expected shapes, for the error text.
void check_window_shapes(const OpInfo& info, const Shape& image, const Shape& w, std::string_view wanted);

/// Describes the convolution from `image` (N, H, W, C) to `result` (N, P, Q, K) with w (K, R, S, C / groups).
template <class Params>
ConvShape conv_shape(const Shape& image, const Shape& w, const Shape& result, const Params& p) {
  return {.images = image[0],
          .height = image[1],
          .width = image[2],
          .channels = image[3],
          .out_height = result[1],
          .out_width = result[2],
          .filters = w[0],
          .filter_height = w[1],
          .filter_width = w[2],
          .stride = {p.stride.y, p.stride.x},
          .padding = {p.padding.y, p.padding.x},
          .dilation = {p.dilation.y, p.dilation.x},
          .groups = p.groups};
}

/// Checks dtypes and bias of the inputs `in` (x, w and optionally bias) and returns the result, which has the shape `y`
/// and is stored as `into` says: the convolution that `shape` describes or, if `transposed`, its input gradient
/// (`shape` then describes the convolution from y to x). Saves x and w.
Tensors convolve(const OpInfo& info, OpContext& ctx, std::span<const Tensor> in, const Shape& y, const ConvShape& shape,
                 bool transposed, const OutputView& into);
/// Computes the gradients of w, bias and x. The gradient of x overwrites the saved x if nothing else reads x. gy may be
/// a channel slice. `shape` and `transposed` have the same meaning as in convolve().
void convolve_backward(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx, const ConvShape& shape,
                       bool transposed);

/// Base of the op units Conv2d and, with `transposed`, ConvTranspose2d. A derived struct defines Params, info and
/// output_shape.
template <class Op, bool transposed>
struct ConvolutionOp {
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const auto& p) {
    const Shape y = Op::output_shape(in[0].shape(), in[1].shape(), p);
    OutputView into;
    if constexpr (requires { p.into; }) into = p.into;
    return convolve(Op::info, ctx, in, y, shape_of(in[0].shape(), in[1].shape(), y, p), transposed, into);
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const auto& p) {
    const ConvShape shape = shape_of(ctx.inputs[0].shape, ctx.inputs[1].shape, gy[0].shape(), p);
    convolve_backward(Op::info, ctx, gy[0], gx, shape, transposed);
  }

 private:
  static ConvShape shape_of(const Shape& x, const Shape& w, const Shape& y, const auto& p) {
    return transposed ? conv_shape(y, w, x, p) : conv_shape(x, w, y, p);
  }
};

/// Returns `info` with the fields that both convolutions share.
constexpr OpInfo convolution_info(OpInfo info) {
  info.inputs = "x, w, bias?";
  info.precision = PrecisionClass::kLow;
  info.policy_inputs = 0b011;
  info.family = OpFamily::kProduct;
  info.observed = Observed::kByKernels;
  info.slices = true;
  return info;
}

}  // namespace binade::ops
