#include "binade/doctor/report/axis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/doctor/report/format.h"

namespace binade::doctor::report {

namespace {

constexpr double kWideSpan = 30;
constexpr int kMostTicks = 40;

bool is_log(Scale scale) { return scale == Scale::kLog10 || scale == Scale::kLog2; }

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Range range_of(const std::vector<Series>& lines) {
  Range range;
  for (const Series& line : lines)
    for (const Point& p : line) {
      range.low = std::min(range.low, p.value);
      range.high = std::max(range.high, p.value);
    }
  return range.low <= range.high ? range : Range{0, 1};
}

/// Rounds a distance between labels up to 1, 2 or 5 times a power of ten.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::string label_of(double value, double spacing) {
  if (std::abs(value) < spacing / 2) return "0";
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(spacing) + 1e-9)));
  if (decimals == 0 && std::abs(value) < 1e7) return count_text(std::llround(value));
  if (std::abs(value) >= 1e5 || decimals > 5) return fmt::format("{:.4g}", value);
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

Axis::Axis(Scale scale, double low, double high) : scale_(scale), low_(low), high_(high) {
  if (is_log(scale)) {
    low_ = std::max(low_, 1e-300);
    if (high_ < low_ * 2) {
      const double middle = std::sqrt(low_) * std::sqrt(std::max(high_, low_));
      low_ = middle / 2;
      high_ = middle * 2;
    }
  } else if (!(high_ - low_ > 1e-9 * std::max(std::abs(low_), std::abs(high_)))) {
    const double spread = std::max(std::abs(low_) * 0.1, scale == Scale::kSteps ? 1.0 : 1e-12);
    high_ = low_ + spread;
    low_ = scale == Scale::kSteps ? low_ : low_ - spread;
  }
}

Axis Axis::around(const std::vector<Series>& lines) {
  const Range r = range_of(lines);
  return around(lines, r.low > 0 && r.high / r.low > kWideSpan ? Scale::kLog10 : Scale::kLinear);
}

Axis Axis::around(const std::vector<Series>& lines, Scale scale) {
  const Range r = range_of(lines);
  if (is_log(scale)) return r.low > 0 ? Axis(scale, r.low / 1.1, r.high * 1.1) : around(lines, Scale::kLinear);
  const double margin = (r.high - r.low) * 0.05;
  return {scale, r.low >= 0 ? std::max(0.0, r.low - margin) : r.low - margin, r.high + margin};
}

double Axis::at(double value) const {
  if (is_log(scale_)) return (std::log(std::max(value, 1e-300)) - std::log(low_)) / (std::log(high_) - std::log(low_));
  return (value - low_) / (high_ - low_);
}

std::vector<Tick> Axis::ticks(int count) const { return is_log(scale_) ? decade_ticks(count) : linear_ticks(count); }

std::vector<Tick> Axis::linear_ticks(int count) const {
  double spacing = round_up((high_ - low_) / count);
  if (scale_ == Scale::kSteps) spacing = std::max(spacing, 1.0);
  std::vector<Tick> ticks;
  const double first = std::ceil(low_ / spacing - 1e-9);
  for (int i = 0; i < kMostTicks; ++i) {
    const double value = (first + i) * spacing;
    if (!(value <= high_ + spacing * 1e-9)) break;
    ticks.push_back({value, scale_ == Scale::kSteps ? count_text(std::llround(value)) : label_of(value, spacing)});
  }
  return ticks;
}

std::vector<Tick> Axis::decade_ticks(int count) const {
  const double base = scale_ == Scale::kLog2 ? 2 : 10, unit = std::log(base);
  const int first = static_cast<int>(std::floor(std::log(low_) / unit + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log(high_) / unit - 1e-9));
  const int stride = std::max(1, (last - first + count - 1) / count);
  const bool between = scale_ == Scale::kLog10 && last - first <= 2;
  std::vector<Tick> ticks;
  for (int exponent = first; exponent <= last; exponent += stride)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(base, exponent);
      if ((factor > 1 && !between) || value < low_ || value > high_) continue;
      ticks.push_back({value, scale_ == Scale::kLog2 ? scale_text(value) : fmt::format("{:g}", value)});
    }
  return ticks;
}

}  // namespace binade::doctor::report
