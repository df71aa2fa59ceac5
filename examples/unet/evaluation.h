#pragma once

#include <functional>

#include "binade/io/data/image_data.h"
#include "binade/io/data/png.h"
#include "examples/unet/prediction.h"

namespace binade::examples {

/// Result of the evaluation of a model on a set of images.
struct MaskScore {
  double loss = 0;             ///< mean training loss over whole images
  double dice = 0;             ///< Dice coefficient of class 1, pooled over all pixels of the set
  double iou = 0;              ///< intersection over union of class 1, pooled over all pixels of the set
  double background_dice = 0;  ///< Dice coefficient of class 0, pooled in the same way
};

/// Receives an image with its predicted class ids, u8 (H, W).
using EachPrediction = std::function<void(const io::ImageSample&, const Tensor& ids)>;
/// Evaluates a model on whole images, one at a time, without gradients and under the caller's precision policy. Calls
/// `each` for every image.
MaskScore evaluate(UNet& model, const io::ImageSet& images, const std::string& loss, const EachPrediction& each = {});

/// Draws image, true mask and predicted class ids (H, W) u8 side by side, separated by white bars: the image scaled to
/// the full range of 8 bits, classes as evenly spaced greys from black to white.
io::Image picture_of(const io::ImageSample& sample, const Tensor& predicted, int classes);

}  // namespace binade::examples
