#pragma once

#include <cstdint>

#include "binade/core/dtype.h"

/// Arguments of kernels that move a window or taps over images (N, H, W, C). A pitch is the number of elements between
/// neighboring pixels.
namespace binade {

/// y[n, oh, ow] = max over the window's pixels inside the image; index = kh * kernel_w + kw of the largest (u8 or i32).
/// NaN counts as larger than every number.
struct MaxPool {
  DType dtype = DType::f32;
  std::int64_t images = 0, height = 0, width = 0, channels = 0, out_height = 0, out_width = 0;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0;
  DType index_dtype = DType::u8;
  void* index = nullptr;    ///< (N, OH, OW, C); null: not wanted
  const void* x = nullptr;  ///< images that forward reads
  std::int64_t x_pitch = 0;
  void* y = nullptr;
  const void* gy = nullptr;  ///< backward: each gx is the sum of gy over the windows whose maximum its pixel is
  std::int64_t gy_pitch = 0;
  void* gx = nullptr;
  std::int64_t gx_pitch = 0;
  bool accumulate = false;  ///< backward: rounds gx as it would be stored, then adds it to the destination
};

/// For each output position o, the source positions that it reads, source[begin[o] … begin[o + 1]), and their weights.
struct Taps {
  const std::int64_t* begin = nullptr;
  const std::int64_t* source = nullptr;
  const double* weight = nullptr;
  /// One per output position or, with divide_before, per source position; null: no division
  const double* divisor = nullptr;
};

/// y[n, oh, ow] = sum over taps of height and width of weight_h weight_w x[n, h, w], in tap order: average pooling,
/// upsampling and, with reversed taps, their gradients.
struct Resample {
  DType dtype = DType::f32;
  std::int64_t images = 0, height = 0, width = 0, channels = 0, out_height = 0, out_width = 0;
  Taps rows{}, cols{};
  bool divide_before = false;  ///< sums x / (divisor_h[h] divisor_w[w]); otherwise divides the sum
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  void* y = nullptr;
};

namespace cpu {

/// Pooling and resampling of one kernel level.
struct PoolKernels {
  void (*max_forward)(const MaxPool&);
  void (*max_backward)(const MaxPool&);
  void (*resample)(const Resample&);
};

}  // namespace cpu
}  // namespace binade
