#pragma once

#include <optional>
#include <span>

namespace binade::amp {

/// A straight line through a noisy series that outliers do not bend.
struct Trend {
  double slope = 0;         ///< per unit of time: the median over all pairs of samples (Theil, Sen)
  double slope_error = 0;   ///< standard error of the slope, from the spread of what the line leaves over
  double first_half = 0;    ///< slope of the older half alone
  double second_half = 0;   ///< slope of the newer half alone
  double last_quarter = 0;  ///< slope of the newest quarter alone
  double level = 0;         ///< of the line at the last sample
};

struct Sample {
  double time = 0;
  double value = 0;
};

/// The trend of finite samples in ascending time; nothing for fewer than 16.
std::optional<Trend> trend_of(std::span<const Sample> samples);

/// The middle value; between two of them the lower. REQUIRES a value. Reorders.
double median(std::span<double> values);

}  // namespace binade::amp
