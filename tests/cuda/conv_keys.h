#pragma once

#include "binade/cuda/device/conv_plan.h"

/// Keys of convolutions, for tests of the requests to a library.
namespace binade::cuda {

/// Returns a convolution of square images and filters.
inline ConvShape shape(std::int64_t images, std::int64_t size, std::int64_t channels, std::int64_t filters,
                       std::int64_t filter, std::int64_t stride = 1, std::int64_t padding = 0,
                       std::int64_t groups = 1) {
  const std::int64_t out = (size + 2 * padding - filter) / stride + 1;
  return {.images = images,
          .height = size,
          .width = size,
          .channels = channels,
          .out_height = out,
          .out_width = out,
          .filters = filters,
          .filter_height = filter,
          .filter_width = filter,
          .stride = {stride, stride},
          .padding = {padding, padding},
          .groups = groups};
}

/// Returns a key for dense, aligned tensors; weight gradients are f32.
inline ConvKey key_of(ConvPass pass, DType in, const ConvShape& s, bool bias = false) {
  return {.pass = pass,
          .in = in,
          .out = pass == ConvPass::kWeightGradient ? DType::f32 : in,
          .shape = s,
          .x_pitch = s.channels,
          .y_pitch = s.filters,
          .bias = bias};
}

}  // namespace binade::cuda
