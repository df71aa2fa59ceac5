#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/io/data/image_data.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Images for training and for validation.
struct ImageSource {
  io::ImageSplit split{};
  std::string content{};  ///< hash of the data, which must be the same in a resumed run
};

/// Reads --data (a folder with images/ and masks/, or an HDF5 file; drawn cells by default) and --val-data. `channels`
/// 1 or 3 converts the images to grey or color; 0 keeps the channels of the training images.
ImageSource read_image_source(const TrainSettings& s, std::int64_t classes, int channels = 0);

/// Returns the logits that correspond to the class frequencies in the masks of `images`: for one class the log-odds of
/// the foreground, for several classes the logarithm of each class's share of the pixels. One is added to the count of
/// each class, so that all logits are finite.
std::vector<double> prior_logits(const io::ImageSet& images, std::int64_t classes);

}  // namespace binade::examples
