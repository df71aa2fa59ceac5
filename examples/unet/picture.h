#pragma once

#include "binade/io/data/image_data.h"
#include "binade/io/data/png.h"

namespace binade::examples {

/// Draws image, true mask and predicted class ids (H, W) u8 side by side, separated by white bars: the image scaled to
/// the full range of 8 bits, classes as evenly spaced greys from black to white.
io::Image picture_of(const io::ImageSample& sample, const Tensor& predicted, int classes);

}  // namespace binade::examples
