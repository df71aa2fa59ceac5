#include "examples/unet/image_source.h"

#include <algorithm>
#include <cmath>

#include "binade/core/error.h"
#include "binade/core/sha256.h"
#include "examples/unet/cells.h"

namespace binade::examples {
namespace {

constexpr std::int64_t kCells = 40;
constexpr std::int64_t kCellSize = 128;
constexpr std::uint64_t kCellSeed = 1;  // seed of the drawn images, independent of --seed

}  // namespace

ImageSource read_image_source(const TrainSettings& s, std::int64_t classes, int channels) {
  io::ImageReadOptions options{.classes = static_cast<int>(classes), .channels = channels};
  const io::ImageSet images = s.data.empty() ? embedded_cells({.count = kCells, .size = kCellSize, .seed = kCellSeed})
                                             : io::read_images(s.data, options);
  ImageSource source;
  source.content = images.content();
  if (s.val_data.empty()) {
    source.split = io::split_images(images, s.val_fraction);
    return source;
  }
  options.channels = images.channels;  // validation images get the channels of the training images
  source.split = {images, io::read_images(s.val_data, options)};
  source.content = sha256_hex(source.content + source.split.validation.content());
  return source;
}

std::vector<double> prior_logits(const io::ImageSet& images, std::int64_t classes) {
  std::vector<double> count(static_cast<std::size_t>(std::max<std::int64_t>(2, classes)), 1);
  for (const io::ImageSample& sample : images.samples)
    for (const std::uint8_t id : sample.pair.mask.to_vector<std::uint8_t>()) {
      check<DataError>(id < count.size(), "prior of {}: wanted class ids 0 to {}, got {}", sample.name,
                       count.size() - 1, id);
      ++count[id];
    }
  if (classes == 1) return {std::log(count[1] / count[0])};
  double pixels = 0;
  for (const double n : count) pixels += n;
  std::vector<double> logits;
  for (const double n : count) logits.push_back(std::log(n / pixels));
  return logits;
}

}  // namespace binade::examples
