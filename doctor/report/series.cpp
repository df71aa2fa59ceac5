#include "binade/doctor/report/series.h"

#include <algorithm>
#include <cmath>

namespace binade::doctor::report {

namespace {
constexpr double kLargest = 1e300;  // larger values are not drawn: the difference of two could overflow
}

Series finite_of(const Series& series) {
  Series kept;
  for (const Point& p : series)
    if (std::abs(p.value) < kLargest) kept.push_back(p);
  return kept;
}

Series keep_extremes(const Series& series, std::size_t limit) {
  if (series.size() <= limit) return series;
  const auto below = [](const Point& a, const Point& b) { return a.value < b.value; };
  const std::size_t inner = series.size() - 2, stretches = (limit - 2) / 2;
  Series kept{series.front()};
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto begin = series.begin() + 1 + static_cast<std::ptrdiff_t>(i * inner / stretches);
    const auto end = series.begin() + 1 + static_cast<std::ptrdiff_t>((i + 1) * inner / stretches);
    auto [low, high] = std::minmax_element(begin, end, below);
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  kept.push_back(series.back());
  return kept;
}

Series moving_mean(const Series& series, std::size_t reach) {
  std::vector<double> sums{0};  // sums[i]: sum of the first i values
  for (const Point& p : series) sums.push_back(sums.back() + p.value);
  Series means = series;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::size_t begin = i - std::min(i, reach), end = std::min(series.size(), i + reach + 1);
    means[i].value = (sums[end] - sums[begin]) / static_cast<double>(end - begin);
  }
  return means;
}

Series corners_of(const Series& series) {
  Series corners;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const bool begins = i == 0 || series[i - 1].value != series[i].value;
    const bool ends = i + 1 == series.size() || series[i + 1].value != series[i].value;
    if (begins || ends) corners.push_back(series[i]);
  }
  return corners;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace binade::doctor::report
