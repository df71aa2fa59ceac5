#pragma once

#include <string>

#include "binade/io/data/image_data.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Images to train on and images held out.
struct ImageSource {
  io::ImageSplit split{};
  std::string content{};  ///< hash of the data that was read: a resumed run must find the same data
};

/// Reads --data (a folder with images/ and masks/, or an HDF5 file; drawn cells when left out) and --val-data.
/// `channels` 1 or 3 turns color to grey or the reverse; 0 leaves the training images as they are.
ImageSource read_image_source(const TrainSettings& s, std::int64_t classes, int channels = 0);

}  // namespace binade::examples
