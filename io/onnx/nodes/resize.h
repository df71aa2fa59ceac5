#pragma once

#include "binade/io/onnx/nodes/node.h"

namespace binade::onnx {

/// ONNX's Resize of images (N, C, H, W) to other extents of the last two axes.
Variable resized(const Node& node);

}  // namespace binade::onnx
