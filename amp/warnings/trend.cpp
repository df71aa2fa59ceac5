#include "binade/amp/warnings/trend.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace binade::amp {
namespace {

constexpr std::size_t kMinSamples = 16;

double median_slope(std::span<const Sample> samples) {
  std::vector<double> slopes;
  slopes.reserve(samples.size() * (samples.size() - 1) / 2);
  for (std::size_t i = 0; i < samples.size(); ++i)
    for (std::size_t j = i + 1; j < samples.size(); ++j)
      slopes.push_back((samples[j].value - samples[i].value) / (samples[j].time - samples[i].time));
  return median(slopes);
}

}  // namespace

double median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

RobustStatistics robust_statistics(std::vector<double> values) {
  const double middle = median(values);
  for (double& x : values) x = std::abs(x - middle);
  return {middle, kDeviationPerMad * median(values)};
}

std::optional<Trend> trend_of(std::span<const Sample> samples) {
  const std::size_t count = samples.size();
  if (count < kMinSamples) return std::nullopt;
  Trend trend;
  trend.slope = median_slope(samples);
  trend.first_half = median_slope(samples.first(count / 2));
  trend.second_half = median_slope(samples.last(count / 2));
  trend.last_quarter = median_slope(samples.last(count / 4));

  const double end = samples.back().time;
  std::vector<double> levels;
  for (const Sample& s : samples) levels.push_back(s.value - trend.slope * (s.time - end));
  const auto [level, spread] = robust_statistics(std::move(levels));
  trend.level = level;
  double mean = 0, squares = 0;
  for (const Sample& s : samples) mean += s.time / static_cast<double>(count);
  for (const Sample& s : samples) squares += (s.time - mean) * (s.time - mean);
  trend.slope_error = spread / std::sqrt(squares);
  return trend;
}

}  // namespace binade::amp
