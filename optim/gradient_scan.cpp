#include "binade/optim/gradient_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "binade/core/kernels/table.h"

namespace binade::optim {

double magnitude_of(std::uint32_t word) { return std::bit_cast<float>(word); }

double GradientScan::norm() const {
  if (has_nan()) return std::numeric_limits<double>::quiet_NaN();
  if (!finite()) return std::numeric_limits<double>::infinity();
  return std::sqrt(sum_squares);
}

GradientScan scan_gradients(FlatParameters& parameters) {
  FlatParameters* const all[] = {&parameters};
  return scan_gradients(all);
}

GradientScan scan_gradients(std::span<FlatParameters* const> all) {
  GradientScan scan;
  std::vector<const float*> gradients;
  std::vector<FlatBlock> blocks;
  for (FlatParameters* parameters : all) {
    append_blocks(blocks, parameters->blocks(), gradients.size());
    const std::vector<const float*> more = parameters->gradients();
    gradients.insert(gradients.end(), more.begin(), more.end());
  }
  scan.words.assign(gradients.size(), 0);
  std::vector<BlockScan> results(blocks.size());
  kernels(all.front()->device()).scan({blocks, gradients, results});
  for (std::size_t b = 0; b < results.size(); ++b) {
    std::uint32_t& word = scan.words[static_cast<std::size_t>(blocks[b].slice)];
    word = std::max(word, results[b].largest);
  }
  scan.sum_squares = sum_of_blocks(results);
  for (const std::uint32_t word : scan.words) scan.largest = std::max(scan.largest, word);
  scan.gradients = gradients.size() - static_cast<std::size_t>(std::ranges::count(gradients, nullptr));
  return scan;
}

}  // namespace binade::optim
