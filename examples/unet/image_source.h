#pragma once

#include <string>

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

}  // namespace binade::examples
