#pragma once

#include <cstdint>
#include <vector>

#include "binade/io/data/image_data.h"

namespace binade::examples {

/// The logits of a model that knows of an image only how common each class is in the masks of `images`. For one class
/// the log-odds of the foreground, for several the logarithm of each one's share of the pixels. Every class is counted
/// once more than it occurs, so that all of them are finite.
std::vector<double> prior_logits(const io::ImageSet& images, std::int64_t classes);

}  // namespace binade::examples
