#pragma once

#include <optional>
#include <span>
#include <vector>

namespace binade::amp {

/// A straight line fitted to a noisy series, in a way that outliers hardly change (Theil-Sen).
struct Trend {
  double slope = 0;         ///< change per unit of time: the median of the slopes of all pairs of samples
  double slope_error = 0;   ///< standard error of the slope, from the spread of the residuals
  double first_half = 0;    ///< slope of the older half alone
  double second_half = 0;   ///< slope of the newer half alone
  double last_quarter = 0;  ///< slope of the newest quarter alone
  double level = 0;         ///< value of the line at the last sample
};

/// A value at a time, to which a trend is fitted.
struct Sample {
  double time = 0;
  double value = 0;
};

/// Fits a trend to finite samples in ascending order of time. Returns std::nullopt for fewer than 16 samples.
std::optional<Trend> trend_of(std::span<const Sample> samples);

/// Returns the median; of an even number of values, the lower of the two in the middle. Reorders `values`, which must
/// not be empty.
double median(std::span<double> values);

/// The standard deviation of normal noise divided by its median absolute deviation.
inline constexpr double kDeviationPerMad = 1.4826;

/// The median, and the robust deviation: an estimate of the standard deviation from the median absolute deviation.
struct RobustStatistics {
  double median, deviation;
};
RobustStatistics robust_statistics(std::vector<double> values);

}  // namespace binade::amp
