#pragma once

#include <functional>

#include "binade/io/data/image_data.h"
#include "examples/unet/prediction.h"

namespace binade::examples {

struct MaskScore {
  double loss = 0;             ///< mean over images of the training loss on the whole image
  double dice = 0;             ///< of class 1, pooled over all pixels of the set
  double iou = 0;              ///< the same
  double background_dice = 0;  ///< of class 0
};

/// Whole images, one at a time. No gradient; the policy in force is the caller's. `each`, where given, sees every image
/// with its predicted class ids, u8 (H, W).
using EachPrediction = std::function<void(const io::ImageSample&, const Tensor& ids)>;
MaskScore evaluate(UNet& model, const io::ImageSet& images, const std::string& loss, const EachPrediction& each = {});

}  // namespace binade::examples
