#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "binade/core/device.h"

namespace binade::amp {

class AttemptRunner;
struct Trial;

/// How much memory for tensors a step takes with a micro-batch of `rows` samples. The room of libraries and of threads
/// is not in it.
struct MemoryForecast {
  std::int64_t rows = 0;
  double bytes = 0;          ///< the most that is in use at once
  double bytes_per_row = 0;  ///< what one more row adds to it
  bool accumulates = false;  ///< a step has several micro-batches

  /// How many rows fit into `available` bytes; 0: not one.
  std::int64_t rows_that_fit(double available) const;
};

/// Forecasts from runs of the step with one, two or three samples, which are not committed. Nothing if samples cannot
/// be left out of it, or if a run fails. Throws OutOfMemoryError.
std::optional<MemoryForecast> forecast_memory(AttemptRunner& runner, const Trial& step, Device device,
                                              bool accumulates);

/// The memory that the device has for everybody: a GPU's, or the machine's where no control group allows less.
double memory_of(Device device);

/// "this step needs about 12.3 GB of 139 GB".
std::string to_string(const MemoryForecast& forecast, double available);
/// Throws OutOfMemoryError, saying what would fit, where it needs more than `available` bytes.
void check_fits(const MemoryForecast& forecast, double available, Device device);

}  // namespace binade::amp
