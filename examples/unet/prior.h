#pragma once

#include <cstdint>
#include <vector>

#include "binade/io/data/image_data.h"

namespace binade::examples {

/// Returns the logits that correspond to the class frequencies in the masks of `images`: for one class the log-odds of
/// the foreground, for several classes the logarithm of each class's share of the pixels. One is added to the count of
/// each class, so that all logits are finite.
std::vector<double> prior_logits(const io::ImageSet& images, std::int64_t classes);

}  // namespace binade::examples
