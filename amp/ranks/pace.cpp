#include "binade/amp/ranks/pace.h"

#include <fmt/format.h>

#include <algorithm>

namespace binade::amp {

std::string RankPace::observe(std::span<const double> seconds) {
  if (seconds.size() < 2) return "";
  slow_.resize(seconds.size());
  sums_.resize(seconds.size());
  // The median is the lower of two middle values, so that of two ranks the slower is compared with the faster.
  std::vector<double> sorted(seconds.begin(), seconds.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::ranges::nth_element(sorted, middle);
  median_sum_ += *middle;
  for (std::size_t rank = 0; rank < seconds.size(); ++rank) {
    sums_[rank] += seconds[rank];
    if (seconds[rank] > kFactor * *middle && seconds[rank] > *middle + kLeast) ++slow_[rank];
  }
  if (++steps_ < kSteps) return "";
  std::string text;
  for (std::size_t rank = 0; rank < seconds.size(); ++rank)
    if (slow_[rank] >= kShare * kSteps)
      text += fmt::format(
          "{}rank {} is slow: {:.3g} ms per micro-batch in the last {} steps, and the median of the "
          "ranks {:.3g} ms; the others wait for it",
          text.empty() ? "" : "; ", rank, 1e3 * sums_[rank] / kSteps, kSteps, 1e3 * median_sum_ / kSteps);
  *this = RankPace();
  return text;
}

}  // namespace binade::amp
