#include "binade/amp/warnings/trend.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace binade::amp {
namespace {

constexpr std::size_t kLeastSamples = 16;
constexpr double kDeviationOfMedian = 1.4826;  // median absolute deviation -> standard deviation, for normal noise

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

std::optional<Trend> trend_of(std::span<const Sample> samples) {
  const std::size_t count = samples.size();
  if (count < kLeastSamples) return std::nullopt;
  Trend trend;
  trend.slope = median_slope(samples);
  trend.first_half = median_slope(samples.first(count / 2));
  trend.second_half = median_slope(samples.last(count / 2));
  trend.last_quarter = median_slope(samples.last(count / 4));

  const double end = samples.back().time;
  std::vector<double> rest;
  for (const Sample& s : samples) rest.push_back(s.value - trend.slope * (s.time - end));
  trend.level = median(rest);
  for (double& x : rest) x = std::abs(x - trend.level);
  const double spread = kDeviationOfMedian * median(rest);
  double mean = 0, squares = 0;
  for (const Sample& s : samples) mean += s.time / static_cast<double>(count);
  for (const Sample& s : samples) squares += (s.time - mean) * (s.time - mean);
  trend.slope_error = spread / std::sqrt(squares);
  return trend;
}

}  // namespace binade::amp
