#include "examples/unet/prior.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "binade/core/error.h"

namespace binade::examples {

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
