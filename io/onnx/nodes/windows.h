#pragma once

#include <vector>

#include "binade/io/onnx/nodes/node.h"

namespace binade::onnx {

/// The windows of a convolution or pooling along one axis.
struct Window {
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  std::int64_t before = 0, after = 0;  ///< padding that counts as part of the input
  std::int64_t beyond = 0;             ///< positions after the padding that the last window covers (ceil_mode)

  std::int64_t covered() const { return dilation * (kernel - 1) + 1; }
  bool symmetric() const { return before == after && beyond == 0; }
};

/// Returns the windows of a node over x (N, C, …), from the extents of the kernel and the node's strides, dilations,
/// pads, auto_pad and ceil_mode.
std::vector<Window> windows_of(const Node& node, const Variable& x, const std::vector<std::int64_t>& kernel);

/// Pads x (N, C, …) with `value` by `before` and `after` of the windows and, if `whole`, by `beyond`.
Variable padded(const Variable& x, const std::vector<Window>& windows, double value, bool whole = true);

/// Convolves x (N, C, …) with w (K, C / groups, …), both in ONNX's layout, by the attributes of a node.
Variable conv(const Node& node, const Variable& x, const Variable& w, const Variable& bias);

/// The value of f for each axis of an image or volume.
template <class F>
Extent2 extent2(const std::vector<Window>& w, F f) {
  return {f(w[0]), f(w[1])};
}
template <class F>
Extent3 extent3(const std::vector<Window>& w, F f) {
  return {f(w[0]), f(w[1]), f(w[2])};
}

}  // namespace binade::onnx
