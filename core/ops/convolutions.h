#pragma once

#include <string>

#include "core/kernel_slot.h"
#include "core/kernels/conv.h"
#include "core/tensor.h"

namespace binade {

/// An extent in the vertical and the horizontal direction; one number means both.
struct Extent2 {
  std::int64_t y = 0, x = 0;
  constexpr Extent2(std::int64_t both) : y(both), x(both) {}  // NOLINT(google-explicit-constructor): {.stride = 2}
  constexpr Extent2(std::int64_t vertical, std::int64_t horizontal) : y(vertical), x(horizontal) {}
  std::string to_string() const { return "(" + std::to_string(y) + ", " + std::to_string(x) + ")"; }
  friend bool operator==(const Extent2&, const Extent2&) = default;
};

namespace ops {

/// What conv2d and conv_transpose2d are computed with: each is the other's data gradient.
KernelSlot<cpu::ConvKernels>& conv_slot();
void register_conv_cpu();

/// Gradient of a convolution's filters into `to`, whatever its floating dtype (f32: straight into it).
void filter_gradient(const cpu::ConvShape& shape, const Tensor& x, const Tensor& gy, Tensor to, const char* op);

/// Gradient of a bias: sums of gy over everything but the channels.
void bias_gradient(const Tensor& gy, Tensor to, const char* op);

}  // namespace ops
}  // namespace binade
