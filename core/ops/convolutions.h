#pragma once

#include "binade/core/kernels/conv.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/op.h"
#include "binade/core/ops/output_view.h"

namespace binade::ops {

// conv2d and conv_transpose2d: each is the other's data gradient.

/// Throws ArgumentError unless stride, dilation and groups are 1 or more, padding is not negative, and none is beyond
/// kMaxExtent.
void check_windows(const OpInfo& info, Extent2 stride, Extent2 padding, Extent2 dilation, std::int64_t groups);

/// Throws ShapeError unless `image` and `w` have rank 4, a filter of 1 pixel or more, and no extent beyond kMaxExtent;
/// `wanted` names the shapes.
void check_window_shapes(const OpInfo& info, const Shape& image, const Shape& w, std::string_view wanted);

/// The convolution that leads from `image` (N, H, W, C) to `result` (N, P, Q, K); w (K, R, S, C / groups).
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

/// Checks dtypes and bias of the inputs (x, w, bias?) and computes y into `into`: the convolution of `shape`, or, if
/// `transposed`, its data gradient (`shape` then describes the convolution from y to x). Saves x and w.
Tensors convolve(const OpInfo& info, OpContext& ctx, std::span<const Tensor> in, const Shape& y, const ConvShape& shape,
                 bool transposed, const OutputView& into = {});
/// The gradients of w, bias and x. That of x overwrites the saved x if nothing else reads it. gy may be a channel
/// slice.
void convolve_backward(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx, const ConvShape& shape,
                       bool transposed);

}  // namespace binade::ops
