#pragma once

#include "examples/unet/prediction.h"
#include "io/image_data.h"

namespace binade::examples {

struct MaskScore {
  double loss = 0;             ///< mean over images of the training loss on the whole image
  double dice = 0;             ///< of class 1, pooled over all pixels of the set
  double iou = 0;              ///< the same
  double background_dice = 0;  ///< of class 0
};

/// Whole images, one at a time. No gradient; the policy in force is the caller's.
MaskScore evaluate(UNet& model, const io::ImageSet& images, const std::string& loss);

}  // namespace binade::examples
