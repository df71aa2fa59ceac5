#pragma once

#include <cstdint>

#include "binade/core/dtype.h"
#include "binade/core/host_device.h"

namespace binade {

/// A convolution x (N, H, W, C) -> y (N, P, Q, K) with filters (K, R, S, C / groups):
///
///   y[n, p, q, k] = sum over r, s, c of x[n, p stride - padding + r dilation, q stride - padding + s dilation, c] w[k,
///   r, s, c]
///
/// where x is 0 outside the image. In arrays, [0] is the vertical and [1] the horizontal direction.
struct ConvShape {
  std::int64_t images = 0, height = 0, width = 0, channels = 0;
  std::int64_t out_height = 0, out_width = 0, filters = 0;
  std::int64_t filter_height = 0, filter_width = 0;
  std::int64_t stride[2] = {1, 1};
  std::int64_t padding[2] = {0, 0};
  std::int64_t dilation[2] = {1, 1};
  std::int64_t groups = 1;
};

/// Returns true if a 1x1 filter visits every pixel once, so that the convolution is a plain product over pixels.
BINADE_HD bool is_product(const ConvShape& s) {
  return s.filter_height == 1 && s.filter_width == 1 && s.groups == 1 && s.stride[0] == 1 && s.stride[1] == 1 &&
         s.padding[0] == 0 && s.padding[1] == 0;
}

/// Forward: source x, result y. Data gradient (`transposed`): source gy, result gx. Pixels are `pitch` elements apart
/// (channel slices). Sums are f32 (f64 for f64); the result is rounded to `out` once. The bits do not depend on the
/// number of threads.
struct ConvArgs {
  ConvShape shape;
  bool transposed = false;
  DType in = DType::f32;
  DType out = DType::f32;
  const void* source = nullptr;
  std::int64_t source_pitch = 0;
  const void* filter = nullptr;  ///< (K, R, S, C / groups), contiguous, dtype `in`
  void* result = nullptr;
  std::int64_t result_pitch = 0;
  const void* bias = nullptr;  ///< one f32 (f64 for f64 inputs) per channel of the result
  bool tf32 = false;           ///< a GPU's library may round f32 inputs to TF32; other devices ignore it
};

/// Overwrites gw (K, R, S, C / groups), f32 (f64 for f64 inputs).
struct ConvWeightArgs {
  ConvShape shape;
  DType in = DType::f32;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* gy = nullptr;
  std::int64_t gy_pitch = 0;
  void* gw = nullptr;
  bool tf32 = false;  ///< a GPU's library may round f32 inputs to TF32; other devices ignore it
};

namespace cpu {

/// The convolution loops of one instruction-set level.
struct ConvKernels {
  void (*conv)(const ConvArgs&);
  void (*weight_gradient)(const ConvWeightArgs&);
};

}  // namespace cpu
}  // namespace binade
