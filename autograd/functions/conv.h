#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/conv2d.h"
#include "binade/core/ops/conv_transpose2d.h"
#include "binade/core/ops/extent3.h"

/// Convolutions of sequences (N, L, C), images (N, H, W, C) and volumes (N, D, H, W, C). Dtypes, sums, rounding and NaN
/// are those of ops::Conv2d and ops::ConvTranspose2d, which compute all of them: a sequence is an image of height 1,
/// and the planes that a filter of a volume covers become channels of an image.
namespace binade {

/// Convolution of x (N, H, W, C) with w (K, R, S, C / groups); the bias is optional: see ops::Conv2d.
Variable conv2d(const Variable& x, const Variable& w, const Variable& bias = {},
                const ops::Conv2d::Params& params = {});

/// Transposed convolution of x (N, H, W, C) with w (C, R, S, K / groups): see ops::ConvTranspose2d.
Variable conv_transpose2d(const Variable& x, const Variable& w, const Variable& bias = {},
                          const ops::ConvTranspose2d::Params& params = {});

/// Options of conv1d().
struct Conv1dParams {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
/// Convolution of x (N, L, C) with w (K, R, C / groups) and bias (K), optional: y (N, P, K) with
/// P = (L + 2 padding - dilation (R - 1) - 1) / stride + 1. Throws ShapeError or ArgumentError like conv2d().
Variable conv1d(const Variable& x, const Variable& w, const Variable& bias = {}, const Conv1dParams& params = {});

/// Options of conv_transpose1d().
struct ConvTranspose1dParams {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
/// Transposed convolution of x (N, L, C) with w (C, R, K / groups) and bias (K), optional: y (N, P, K) with
/// P = (L - 1) stride - 2 padding + dilation (R - 1) + output_padding + 1.
Variable conv_transpose1d(const Variable& x, const Variable& w, const Variable& bias = {},
                          const ConvTranspose1dParams& params = {});

/// Options of conv3d().
struct Conv3dParams {
  Extent3 stride = 1;
  Extent3 padding = 0;
  Extent3 dilation = 1;
  std::int64_t groups = 1;
};
/// Convolution of x (N, D, H, W, C) with w (K, T, R, S, C / groups) and bias (K), optional: y (N, O, P, Q, K), whose
/// extents follow from the formula of conv1d(). The planes of x are copied T / stride.z times, unless
/// T = 1 without stride or padding in depth. In 16 bits, the gradient of x is a sum of up to T rounded parts.
Variable conv3d(const Variable& x, const Variable& w, const Variable& bias = {}, const Conv3dParams& params = {});

/// Options of conv_transpose3d().
struct ConvTranspose3dParams {
  Extent3 stride = 1;
  Extent3 padding = 0;
  Extent3 output_padding = 0;
  Extent3 dilation = 1;
  std::int64_t groups = 1;
};
/// Transposed convolution of x (N, D, H, W, C) with w (C, T, R, S, K / groups) and bias (K), optional: y
/// (N, O, P, Q, K), whose extents follow from the formula of conv_transpose1d(). If T = stride.z without padding,
/// output padding or dilation in depth, the filters do not overlap in depth and the planes of x are not copied.
/// Otherwise they are copied T times, and if stride.z > 1, planes of zeros are inserted between them: an infinite
/// weight times such a zero is NaN.
Variable conv_transpose3d(const Variable& x, const Variable& w, const Variable& bias = {},
                          const ConvTranspose3dParams& params = {});

}  // namespace binade
