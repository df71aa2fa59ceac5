#pragma once

#include "binade/io/data/image_data.h"
#include "binade/io/data/png.h"

namespace binade::examples {

/// Image, truth and prediction (H, W) of u8 class ids beside one another, for people to look at: the image stretched to
/// the full range of 8 bits, classes as even steps of grey from black to white, white bars between the three.
io::Image picture_of(const io::ImageSample& sample, const Tensor& predicted, int classes);

}  // namespace binade::examples
